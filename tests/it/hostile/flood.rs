//! Does the controller's memory stay bounded while a computer floods it? (threats.md T4)

use std::time::Duration;

use hotdesk::base::tasks::Tasks;
use reqwest::Method;
use tokio::net::UnixListener;

use super::attack::{Attack, Then, answer_with};
use crate::harness::agent::answered;
use crate::harness::controller::{RunningController, no_computers_here};

/// What the controller may hold at its worst: one computer's room for answers, twice while it grows, and itself.
const MOST_KIB: u64 = 512 * 1024;

/// Peak resident memory in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the controller lives");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_endless_answers_to_many_calls_at_once_fill_no_memory() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let mut house = RunningController::boot().await;
    let workspace = house.workspace("w").await;
    let flooder = house.computer(&workspace, "flooder").await["id"].as_str().expect("an id").to_owned();
    let honest = house.computer(&workspace, "honest").await["id"].as_str().expect("an id").to_owned();
    // The guest's root could take its agent's place as well; a controller that starts anew has no connection to it yet.
    house.kill();
    let socket = house.data_dir().join("machines").join(&flooder).join("agent.sock");
    std::fs::remove_file(&socket).expect("the agent's socket");
    let tasks = Tasks::new();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n\x89PNG\r\n\x1a\n".to_vec();
    let attack = Attack::new("a flood", head, Then::Flood(vec![0; 256 * 1024]));
    answer_with(&attack, UnixListener::bind(&socket).expect("its place"), &tasks);
    house.start_again().await;
    house.until_status(&flooder, "running").await;

    let path = format!("/computers/{flooder}/screenshot?response_format=binary");
    let asked = (0..40).map(|_| answered(house.request(Method::GET, &path)));
    let answers = futures_util::future::join_all(asked).await;
    for answer in &answers {
        // Those that a busy machine does not get to in time are given up.
        assert!([500, 503, 504].contains(&answer.status), "{} {}", answer.status, answer.body);
        assert!(answer.body["request_id"].is_string());
    }
    let peak = peak_kib(house.pid());
    println!("peak of the controller: {} MiB", peak >> 10);
    assert!(peak < MOST_KIB, "the controller had {peak} KiB");
    assert_eq!(house.bash(&honest, "echo hi").await, "hi\n");
    tasks.drain(Duration::from_secs(5)).await;
}
