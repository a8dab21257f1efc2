//! Answers of computers that their clients do not read: T13 (docs/security.md).

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::large_pictures;
use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// Longest time until the controller notices that a client is gone, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Longest time without progress of an answer (docs/security.md#t13-slow-clients).
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for a screenshot and reads only the beginning of the answer.
async fn read_little(controller: &Simulation, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(controller.address()).await.expect("a connection");
    let key = controller.key();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut beginning = vec![0; 12];
    stream.read_exact(&mut beginning).await.expect("the beginning of an answer");
    (stream, String::from_utf8(beginning).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_an_unread_answer_keeps_its_room() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let path = format!("/computers/{computer}/screenshot?response_format=binary");
    let (unread, beginning) = read_little(&controller, &format!("/api{path}")).await;
    assert_eq!(beginning, "HTTP/1.1 200");
    let refused = fetch_json(controller.request(Method::GET, &path)).await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    drop(unread);
    let served = async || {
        let answer = controller.request(Method::GET, &path).send().await.expect("an answer");
        (answer.status() == 200).then_some(())
    };
    assert!(wait::until(DEADLINE, served).await.is_some(), "the room of a client that is gone is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_an_answer_without_progress_for_a_minute_is_ended() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let path = format!("/computers/{computer}/screenshot?response_format=binary");
    let (unread, _) = read_little(&controller, &format!("/api{path}")).await;
    let served = async || {
        let answer = controller.request(Method::GET, &path).send().await.expect("an answer");
        (answer.status() == 200).then_some(())
    };
    assert!(served().await.is_none(), "the unread answer has all the room");
    let freed = wait::until(STALL_TIMEOUT + DEADLINE, served).await;
    assert!(freed.is_some(), "the room of an answer that makes no progress is free again");
    drop(unread);
}
