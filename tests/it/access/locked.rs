//! What is answered while the store cannot be read? Never that a key is wrong (access.md A1, A10).

use std::fs::{File, OpenOptions};
use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::clock::now_ms;
use hotdesk::base::wait;
use hotdesk::controller::auth::keys;
use hotdesk::store::Store;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use reqwest::redirect::Policy;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::client_builder;
use crate::harness::controller::RunningController;
use crate::mcp::scene::{initialize, token};

/// SQLite gives up after some 10 s of locks that are taken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Takes every lock that a reader needs, as a process does that recovers the write-ahead log: the bytes from 120 on of its
/// index (sqlite.org/walformat.html section 2.3).
async fn lock(house: &RunningController) -> File {
    let index = house.data_dir().join("hotdesk.db-shm");
    let file = OpenOptions::new().read(true).write(true).open(index).expect("the index");
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 120,
        l_len: 8,
        l_pid: 0,
    };
    let taken = wait::until(TIMEOUT, async || fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).ok());
    assert!(taken.await.is_some(), "the locks are free between two reads");
    file
}

async fn ask(house: &RunningController, key: &str) -> Response {
    house.request_with(key, Method::GET, "/workspaces").send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_a10_a_store_that_is_locked_is_503_and_a_bad_checksum_needs_no_store() {
    let house = RunningController::boot().await;
    let unknown = keys::fresh();
    assert_eq!(ask(&house, unknown.reveal()).await.status(), 401);
    let locked = lock(&house).await;
    let answers = async {
        for key in [house.key(), unknown.reveal()] {
            let answer = ask(&house, key).await;
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["retry-after"]),
                (503, &"5".parse().unwrap())
            );
            let body: Value = answer.json().await.expect("JSON");
            assert_eq!(body["error"], "Service temporarily unavailable");
            assert!(!body.to_string().contains("lock"), "{body}");
        }
    };
    tokio::time::timeout(4 * TIMEOUT, answers).await.expect("an answer in time");
    // Nobody is asked whether there is a key that was not made here: else this were 503 too.
    let (kept, last) = house.key().split_at(house.key().len() - 1);
    let mistyped = format!("{kept}{}", if last == "x" { "y" } else { "x" });
    let answer = ask(&house, &mistyped).await;
    assert_eq!(answer.status(), 401);
    assert!(
        answer.json::<Value>().await.expect("JSON")["error"].as_str().unwrap().starts_with("Invalid API key")
    );
    drop(locked);
    let again =
        wait::until(TIMEOUT, async || (ask(&house, house.key()).await.status() == 200).then_some(()));
    assert!(again.await.is_some(), "it goes on afterwards");
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_token_a_cookie_and_a_code_that_cannot_be_looked_up_are_503_too() {
    let house = RunningController::boot().await;
    let home = house.workspace("home").await;
    let store = Store::open(&house.data_dir().join("hotdesk.db")).await.expect("the store");
    let operator = store.operator().await.expect("the operator");
    let access = token(&store, operator, &home).await;
    let cookie = "a-browser-s-cookie";
    let session = store.add_session(operator, &keys::digest(cookie), now_ms() + 3_600_000).await;
    session.expect("a session");
    store.close().await;
    let metadata = json!({"client_name": "Pilot", "redirect_uris": ["https://app.example/cb"]});
    let registered = house.bare(Method::POST, "/oauth/register").json(&metadata).send().await;
    let registered: Value = registered.expect("an answer").json().await.expect("JSON");
    let grant = [
        ("grant_type", "authorization_code"),
        ("client_id", registered["client_id"].as_str().expect("an id")),
        ("code", "unknown"),
        ("code_verifier", "unknown"),
    ];
    let grant = serde_urlencoded::to_string(grant).expect("a form");
    let client = client_builder().redirect(Policy::none()).build().expect("a client");
    let ask = |method, path: &str| client.request(method, format!("{}{path}", house.base()));
    let all = || {
        [
            ask(Method::POST, "/mcp")
                .bearer_auth(&access)
                .header("accept", "application/json, text/event-stream")
                .json(&initialize()),
            ask(Method::GET, "/settings").header("cookie", format!("hotdesk={cookie}")),
            ask(Method::POST, "/oauth/token")
                .header("content-type", "application/x-www-form-urlencoded")
                .body(grant.clone()),
        ]
    };
    // All at once: each waits for the locks.
    let told = async || {
        let answers = join_all(all().map(reqwest::RequestBuilder::send)).await;
        let answers = answers.into_iter().map(|answer| answer.expect("an answer"));
        let short = |answer: Response| {
            let wait = answer.headers().get("retry-after").map(|seconds| seconds == "5");
            (answer.status().as_u16(), wait)
        };
        answers.map(short).collect::<Vec<_>>()
    };
    assert_eq!(told().await, [(200, None), (200, None), (400, None)]);
    let locked = lock(&house).await;
    let refused = tokio::time::timeout(4 * TIMEOUT, told()).await.expect("an answer in time");
    assert_eq!(refused, [(503, Some(true)); 3]);
    drop(locked);
    let again = wait::until(TIMEOUT, async || (told().await[0].0 == 200).then_some(()));
    assert!(again.await.is_some(), "it goes on afterwards");
}
