//! Memory bound of the controller while a computer floods it: T4 (docs/security.md).

use std::time::Duration;

use hotdesk::base::tasks::Tasks;
use reqwest::Method;
use tokio::net::UnixListener;

use super::attack::{Attack, Then, answer_with};
use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::process::memory_kib;

/// Peak memory limit in KiB: the response buffer of one computer, twice while it grows, and the controller
/// itself.
const MOST_KIB: u64 = 512 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn t4_endless_answers_to_many_calls_at_once_fill_no_memory() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot().await;
    let workspace = controller.workspace("w").await;
    let flooder = controller.computer(&workspace, "flooder").await["id"].as_str().expect("an id").to_owned();
    let honest = controller.computer(&workspace, "honest").await["id"].as_str().expect("an id").to_owned();
    // The guest's root can replace the agent too. A restarted controller has no connection to the old socket.
    controller.kill();
    let socket = controller.data_dir().join("machines").join(&flooder).join("agent.sock");
    std::fs::remove_file(&socket).expect("the agent's socket");
    let tasks = Tasks::new();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n\x89PNG\r\n\x1a\n".to_vec();
    let attack = Attack::new("a flood", head, Then::Flood(vec![0; 256 * 1024]));
    answer_with(&attack, UnixListener::bind(&socket).expect("a socket in its place"), &tasks);
    controller.start_again().await;
    controller.until_status(&flooder, "running").await;

    let path = format!("/computers/{flooder}/screenshot?response_format=binary");
    let requests = (0..40).map(|_| fetch_json(controller.request(Method::GET, &path)));
    let answers = futures_util::future::join_all(requests).await;
    for answer in &answers {
        // A busy machine may not serve all of them before the timeout.
        assert!([500, 503, 504].contains(&answer.status), "{} {}", answer.status, answer.body);
        assert!(answer.body["request_id"].is_string());
    }
    let peak = memory_kib(controller.pid(), "VmHWM:");
    println!("peak of the controller: {} MiB", peak >> 10);
    assert!(peak < MOST_KIB, "the controller had {peak} KiB");
    assert_eq!(controller.bash(&honest, "echo hi").await, "hi\n");
    tasks.drain(Duration::from_secs(5)).await;
}
