//! Close codes of channels when the computer, its agent or the controller ends.

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use hotdesk::base::wait;
use hotdesk::domain::desktop::channel::{Channel, Failure};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{EVERYWHERE, open, password};
use crate::harness::agent::{RunningAgent, alive};
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// A socket of each channel that has sent a message, so that its other end is connected.
async fn open_all(controller: &RunningController, id: &str) -> Vec<(Channel, Client)> {
    let token = format!("?token={}", password(controller, id).await);
    let mut clients = Vec::new();
    for channel in EVERYWHERE {
        let mut client = open(controller, id, channel, &token).await;
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("the socket is open");
        }
        let message = client.next().await;
        assert!(matches!(message, SocketEvent::Text(_) | SocketEvent::Binary(_)), "{channel:?}: {message:?}");
        clients.push((channel, client));
    }
    clients
}

/// The final message of a socket, after any others.
async fn final_message(client: &mut Client) -> SocketEvent {
    loop {
        match client.next().await {
            SocketEvent::Text(_) | SocketEvent::Binary(_) => {}
            final_message @ (SocketEvent::Closed(..) | SocketEvent::Cut) => return final_message,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_is_deleted_ends_its_sockets_with_1001() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let clients = open_all(&controller, &id).await;
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    for (channel, mut client) in clients {
        assert_eq!(
            final_message(&mut client).await,
            SocketEvent::Closed(1001, "computer stopping".into()),
            "{channel:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_says_that_it_is_the_one() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let mut clients = open_all(&controller, &id).await;
    let token = format!("?token={}", password(&controller, &id).await);
    // Repeated, because the order in which the sockets ended once varied.
    for _ in 0..10 {
        let mut client = open(&controller, &id, Channel::Terminal, &token).await;
        assert!(matches!(client.next().await, SocketEvent::Text(_)));
        clients.push((Channel::Terminal, client));
    }
    controller.terminate();
    for (channel, mut client) in clients {
        let expected = SocketEvent::Closed(1001, "server shutting down".into());
        assert_eq!(final_message(&mut client).await, expected, "{channel:?}");
    }
    assert!(controller.ended(Duration::from_secs(30)).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_under_its_sockets_is_a_failure_and_events_go_on() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let clients = open_all(&controller, &id).await;
    let init = controller.init_pid(&id);
    let children =
        std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).expect("the process exists");
    let agent = children
        .split_whitespace()
        .find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("agent"))
        })
        .unwrap_or_else(|| panic!("no agent among {children:?}"));
    let agent = nix::unistd::Pid::from_raw(agent.parse().expect("a number"));
    nix::sys::signal::kill(agent, nix::sys::signal::Signal::SIGKILL).expect("the agent runs");
    for (channel, mut client) in clients {
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("the socket is open");
            assert!(matches!(client.next().await, SocketEvent::Text(text) if text.contains("pong")));
            continue;
        }
        let code = channel.close_code(Failure::Unreachable);
        assert_eq!(
            final_message(&mut client).await,
            SocketEvent::Closed(code, "the computer broke the channel off".into()),
            "{channel:?}"
        );
    }
}

/// The server waits ten seconds for a client that reads nothing, then ends its shell (T12, docs/security.md).
#[tokio::test]
async fn who_reads_nothing_is_left_after_ten_seconds() {
    let agent = RunningAgent::headless().await;
    let path = format!("/ws/terminal?token={}", agent.token());
    let mut client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    let flood = json!({ "type": "input", "data": "echo $$ >shell; yes\r" });
    let began = Instant::now();
    client.0.send(Message::text(flood.to_string())).await.expect("the socket is open");
    let shell = agent.file("shell").await;
    assert!(alive(&shell));
    let ended = wait::until(Duration::from_secs(40), || async { (!alive(&shell)).then_some(()) }).await;
    assert!(ended.is_some(), "the shell must end");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(9), "only {took:?}");
}
