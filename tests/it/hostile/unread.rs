//! Answers of computers that their clients do not read: T13 (docs/security.md).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use hotdesk::base::wait;
use hotdesk::controller::config::Config;
use hotdesk::engine::simulated::AgentBoot;
use hotdesk::http::serve::ClientMayPause;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{LARGE_SCREEN, large_pictures};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Longest time until the controller notices that a client is gone, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Bytes of an answer that the kernel keeps for a client that does not read.
const RECEIVE_BUFFER: u32 = 64 << 10;

/// Longest time without progress of an answer (docs/security.md#t13-slow-clients).
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for a screenshot and reads only the beginning of the answer.
async fn read_little(controller: &Simulation, path: &str) -> (TcpStream, String) {
    read_little_as(controller, path, controller.key(), "192.0.2.1").await
}

/// [`read_little`] with another key, and from an address where the controller trusts proxies on this machine.
async fn read_little_as(controller: &Simulation, path: &str, key: &str, from: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    // So that little of an answer is in the kernel.
    socket.set_recv_buffer_size(RECEIVE_BUFFER).expect("a small buffer");
    let server = controller.address().parse().expect("an address");
    let mut stream = socket.connect(server).await.expect("a connection");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nX-Forwarded-For: {from}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut beginning = vec![0; 12];
    stream.read_exact(&mut beginning).await.expect("the beginning of an answer");
    (stream, String::from_utf8(beginning).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_an_unread_answer_keeps_its_room() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let path = format!("/computers/{computer}/screenshot?response_format=binary&screen={LARGE_SCREEN}");
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
    let path = format!("/computers/{computer}/screenshot?response_format=binary&screen={LARGE_SCREEN}");
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

/// The bound of one account is that of two large pictures, on whichever computers.
#[tokio::test(flavor = "multi_thread")]
async fn t13_unread_answers_of_an_account_are_bounded_over_all_computers() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let workspace = controller.workspace("demo").await;
    let mut paths = Vec::new();
    for name in ["one", "two", "three"] {
        let computer = controller.computer(&workspace, name).await;
        paths.push(format!("/computers/{computer}/screenshot?response_format=binary&screen={LARGE_SCREEN}"));
    }
    let mut unread = Vec::new();
    for path in &paths[..2] {
        let (stream, beginning) = read_little(&controller, &format!("/api{path}")).await;
        assert_eq!(beginning, "HTTP/1.1 200");
        unread.push(stream);
    }
    let refused = fetch_json(controller.request(Method::GET, &paths[2])).await;
    assert_eq!((refused.status, refused.body["retry_after"].as_u64()), (503, Some(1)), "{}", refused.body);
    assert_eq!(controller.get("/computers").await.status, 200, "small answers do not count");
    drop(unread);
    let served = async || {
        let answer = controller.request(Method::GET, &paths[2]).send().await.expect("an answer");
        (answer.status() == 200).then_some(())
    };
    assert!(wait::until(DEADLINE, served).await.is_some(), "the room of clients that are gone is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_unread_answers_of_an_address_are_bounded_over_all_accounts() {
    let config = Config { trusted_proxies: "127.0.0.1".to_owned(), ..Config::default() };
    let agent = Arc::new(|_: &AgentBoot| default_agent().merge(large_pictures()));
    let controller = Simulation::boot_with_agent(agent, Setup { config, ..Setup::default() }).await;
    let mut requests = Vec::new();
    for name in ["a", "b", "c"] {
        let (_, key) = controller.account(&format!("{name}@example.org")).await;
        let create = async |path: &str, body: Value| {
            let created = controller.request_with(&key, Method::POST, path).json(&body);
            id_of(&fetch_json(created).await.body)
        };
        let workspace = create("/workspaces", json!({ "name": name })).await;
        let computer = create("/computers", json!({ "workspace_id": workspace, "name": name })).await;
        let path =
            format!("/api/computers/{computer}/screenshot?response_format=binary&screen={LARGE_SCREEN}");
        requests.push((path, key));
    }
    let mut unread = Vec::new();
    for ((path, key), status) in requests.iter().zip(["200", "200", "503"]) {
        let (stream, beginning) = read_little_as(&controller, path, key, "192.0.2.1").await;
        assert_eq!(beginning, format!("HTTP/1.1 {status}"));
        unread.push(stream);
    }
    let (path, key) = &requests[2];
    assert_eq!(
        read_little_as(&controller, path, key, "192.0.2.2").await.1,
        "HTTP/1.1 200",
        "another address"
    );
}

/// Readers of output that may pause, of one computer (docs/security.md#t13-slow-clients).
const PAUSING_READERS: usize = 64;
/// More bytes than the buffers of a connection have.
const BUFFERED: usize = 16 << 20;

/// Length of an answer that is never whole, in bytes: below the largest answer of the proxied path.
const LENGTH: u64 = 1 << 29;

/// Routes of an agent whose answer at a path goes on for as long as anybody reads it. The agent itself waits for its client.
fn endless_at(path: &str) -> Router {
    let endless = async || {
        let pieces = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 16 << 10]));
        let mut answer = ([(header::CONTENT_LENGTH, LENGTH)], Body::from_stream(pieces)).into_response();
        answer.extensions_mut().insert(ClientMayPause::unlimited());
        answer
    };
    Router::new().route(path, get(endless))
}

/// Whether a connection still has an end of its answer beyond what was buffered.
async fn goes_on(mut stream: TcpStream) -> bool {
    let (mut piece, mut read) = (vec![0; 64 << 10], 0);
    while read < BUFFERED {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return false,
            Ok(length) => read += length,
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_only_so_many_readers_of_a_replaced_agent_s_output_may_pause() {
    let controller = Simulation::boot_with(endless_at("/processes/{id}/output")).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let paths = [
        format!("/api/desktops/{computer}/proxy/processes/p/output"),
        format!("/api/computers/{computer}/processes/p/output?follow=true"),
    ];
    let mut readers = Vec::new();
    for number in 0..PAUSING_READERS + 2 {
        let (stream, beginning) = read_little(&controller, &paths[number % 2]).await;
        assert_eq!(beginning, "HTTP/1.1 200");
        readers.push(stream);
    }
    tokio::time::sleep(STALL_TIMEOUT + DEADLINE).await;
    for stream in readers.drain(PAUSING_READERS..) {
        assert!(!goes_on(stream).await, "a reader too many is cut off like every client that does not read");
    }
    for stream in [readers.swap_remove(1), readers.swap_remove(0)] {
        assert!(goes_on(stream).await, "the first ones may pause");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_streamed_answer_that_nobody_reads_is_ended_too() {
    let routes = endless_at("/files/content").merge(endless_at("/windows"));
    let controller = Simulation::boot_with(routes).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let mut unread = Vec::new();
    for path in [
        format!("/api/computers/{computer}/files/content?path=/root/a"),
        format!("/api/desktops/{computer}/proxy/windows"),
    ] {
        let (stream, beginning) = read_little(&controller, &path).await;
        assert_eq!(beginning, "HTTP/1.1 200", "{path}");
        unread.push((path, stream));
    }
    tokio::time::sleep(STALL_TIMEOUT + DEADLINE).await;
    for (path, stream) in unread {
        assert!(!goes_on(stream).await, "{path}");
    }
}
