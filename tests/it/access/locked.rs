//! Answers while the store cannot be read: never that a key is wrong (A1, A10, docs/authentication-rules.md).

use std::fs::{File, OpenOptions};
use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::clock;
use hotdesk::base::wait;
use hotdesk::controller::identity::auth::keys;
use hotdesk::store::Store;
use hotdesk::store::identity::sign_in::sessions::NewSession;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use reqwest::redirect::Policy;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::client_builder;
use crate::harness::controller::RunningController;
use crate::mcp::scene::{initialize, token};

/// SQLite gives up after about 10 s of held locks.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Takes every lock that a reader needs, as a process does that recovers the write-ahead log. The lock bytes
/// of the log's index begin at 120 (sqlite.org/walformat.html section 2.3).
async fn lock(controller: &RunningController) -> File {
    let index = controller.data_dir().join("hotdesk.db-shm");
    let file = OpenOptions::new().read(true).write(true).open(index).expect("the index");
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 120,
        l_len: 8,
        l_pid: 0,
    };
    let taken = wait::until(TIMEOUT, async || fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).ok());
    assert!(taken.await.is_some(), "the locks must be free between two reads");
    file
}

async fn list_workspaces(controller: &RunningController, key: &str) -> Response {
    controller.request_with(key, Method::GET, "/workspaces").send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_a10_a_store_that_is_locked_is_503_and_a_bad_checksum_needs_no_store() {
    let controller = RunningController::boot().await;
    let unknown = keys::generate();
    assert_eq!(list_workspaces(&controller, unknown.reveal()).await.status(), 401);
    let locked = lock(&controller).await;
    let answers = async {
        for key in [controller.key(), unknown.reveal()] {
            let answer = list_workspaces(&controller, key).await;
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
    // The checksum rejects a mistyped key without a look-up: with a look-up this would be a 503 too.
    let (key_prefix, last) = controller.key().split_at(controller.key().len() - 1);
    let mistyped = format!("{key_prefix}{}", if last == "x" { "y" } else { "x" });
    let answer = list_workspaces(&controller, &mistyped).await;
    assert_eq!(answer.status(), 401);
    assert!(
        answer.json::<Value>().await.expect("JSON")["error"].as_str().unwrap().starts_with("Invalid API key")
    );
    drop(locked);
    let again = wait::until(TIMEOUT, async || {
        (list_workspaces(&controller, controller.key()).await.status() == 200).then_some(())
    });
    assert!(again.await.is_some(), "the controller answers again after the locks are free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_token_a_cookie_and_a_code_that_cannot_be_looked_up_are_503_too() {
    let controller = RunningController::boot().await;
    let home = controller.workspace("home").await;
    let store = Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("the store");
    let operator = store.operator_account().await.expect("the operator");
    let access = token(&store, operator, &home).await;
    let cookie = "a-browser-s-cookie";
    let (digest, expires_at) = (keys::digest(cookie), clock::now().plus(Duration::from_secs(3600)));
    store.add_session(operator, &NewSession::new(&digest, expires_at)).await.expect("a session");
    store.close().await;
    let metadata = json!({"client_name": "Pilot", "redirect_uris": ["https://app.example/cb"]});
    let registered = controller.bare(Method::POST, "/oauth/register").json(&metadata).send().await;
    let registered: Value = registered.expect("an answer").json().await.expect("JSON");
    let grant = [
        ("grant_type", "authorization_code"),
        ("client_id", registered["client_id"].as_str().expect("an id")),
        ("code", "unknown"),
        ("code_verifier", "unknown"),
    ];
    let grant = serde_urlencoded::to_string(grant).expect("a form");
    let client = client_builder().redirect(Policy::none()).build().expect("a client");
    let list_workspaces = |method, path: &str| client.request(method, format!("{}{path}", controller.base()));
    let all = || {
        [
            list_workspaces(Method::POST, "/mcp")
                .bearer_auth(&access)
                .header("accept", "application/json, text/event-stream")
                .json(&initialize()),
            list_workspaces(Method::GET, "/settings").header("cookie", format!("hotdesk={cookie}")),
            list_workspaces(Method::POST, "/oauth/token")
                .header("content-type", "application/x-www-form-urlencoded")
                .body(grant.clone()),
        ]
    };
    // All at once, because each request waits for the locks.
    let request_all = async || {
        let answers = join_all(all().map(reqwest::RequestBuilder::send)).await;
        let answers = answers.into_iter().map(|answer| answer.expect("an answer"));
        let short = |answer: Response| {
            let wait = answer.headers().get("retry-after").map(|seconds| seconds == "5");
            (answer.status().as_u16(), wait)
        };
        answers.map(short).collect::<Vec<_>>()
    };
    assert_eq!(request_all().await, [(200, None), (200, None), (400, None)]);
    let locked = lock(&controller).await;
    let refused = tokio::time::timeout(4 * TIMEOUT, request_all()).await.expect("an answer in time");
    assert_eq!(refused, [(503, Some(true)); 3]);
    drop(locked);
    let again = wait::until(TIMEOUT, async || (request_all().await[0].0 == 200).then_some(()));
    assert!(again.await.is_some(), "the controller answers again after the locks are free");
}
