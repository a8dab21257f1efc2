//! What is answered while the store cannot be read? Never that a key is wrong (access.md A1, A10).

use std::fs::{File, OpenOptions};
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::auth::keys;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use reqwest::{Method, Response};
use serde_json::Value;

use crate::harness::controller::RunningController;

/// SQLite gives up after some 10 s of locks that are taken.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let taken = wait::until(PATIENCE, async || fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).ok());
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
    tokio::time::timeout(4 * PATIENCE, answers).await.expect("an answer in time");
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
        wait::until(PATIENCE, async || (ask(&house, house.key()).await.status() == 200).then_some(()));
    assert!(again.await.is_some(), "it goes on afterwards");
}
