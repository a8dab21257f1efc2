//! What is a client told when the computer, its agent or the controller ends?

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use hotdesk::base::wait;
use hotdesk::domain::channel::{Channel, Failure};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{open, password};
use crate::harness::agent::{RunningAgent, alive};
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

/// An open socket of each channel that has said something, so that there is somebody at the other end.
async fn all(house: &RunningController, id: &str) -> Vec<(Channel, Client)> {
    let token = format!("?token={}", password(house, id).await);
    let mut clients = Vec::new();
    for channel in Channel::ALL {
        let mut client = open(house, id, channel, &token).await;
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
        }
        let came = client.next().await;
        assert!(matches!(came, Came::Text(_) | Came::Binary(_)), "{channel:?}: {came:?}");
        clients.push((channel, client));
    }
    clients
}

/// How it is closed, whatever comes before.
async fn end(client: &mut Client) -> Came {
    loop {
        match client.next().await {
            Came::Text(_) | Came::Binary(_) => {}
            end @ (Came::Closed(..) | Came::Cut) => return end,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_is_deleted_ends_its_sockets_with_1001() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let clients = all(&house, &id).await;
    assert_eq!(house.delete(&format!("/computers/{id}")).await.status, 200);
    for (channel, mut client) in clients {
        assert_eq!(end(&mut client).await, Came::Closed(1001, "computer stopping".into()), "{channel:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_says_that_it_is_the_one() {
    let Some((mut house, _, id)) = RunningController::with_a_computer().await else { return };
    let mut clients = all(&house, &id).await;
    let token = format!("?token={}", password(&house, &id).await);
    // Many, because what ends first was a matter of luck.
    for _ in 0..10 {
        let mut client = open(&house, &id, Channel::Terminal, &token).await;
        assert!(matches!(client.next().await, Came::Text(_)));
        clients.push((Channel::Terminal, client));
    }
    house.terminate();
    for (channel, mut client) in clients {
        let told = Came::Closed(1001, "server shutting down".into());
        assert_eq!(end(&mut client).await, told, "{channel:?}");
    }
    assert!(house.ended(Duration::from_secs(30)).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_under_its_sockets_is_a_failure_and_events_go_on() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let clients = all(&house, &id).await;
    let init = house.init_pid(&id);
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).expect("they run");
    let agent = children
        .split_whitespace()
        .find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("agent"))
        })
        .unwrap_or_else(|| panic!("no agent among {children:?}"));
    let agent = nix::unistd::Pid::from_raw(agent.parse().expect("a number"));
    nix::sys::signal::kill(agent, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    for (channel, mut client) in clients {
        if channel == Channel::Events {
            client.0.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it listens");
            assert!(matches!(client.next().await, Came::Text(text) if text.contains("pong")));
            continue;
        }
        let code = channel.close_code(Failure::Unreachable);
        assert_eq!(
            end(&mut client).await,
            Came::Closed(code, "the computer broke the channel off".into()),
            "{channel:?}"
        );
    }
}

/// A client that reads nothing is given ten seconds (threats.md T12), and takes with it what it started.
#[tokio::test]
async fn who_reads_nothing_is_left_after_ten_seconds() {
    let agent = RunningAgent::headless().await;
    let path = format!("/ws/terminal?token={}", agent.token());
    let mut client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    let flood = json!({ "type": "input", "data": "echo $$ >shell; yes\r" });
    let began = Instant::now();
    client.0.send(Message::text(flood.to_string())).await.expect("it listens");
    let shell = agent.file("shell").await;
    assert!(alive(&shell));
    let left = wait::until(Duration::from_secs(40), || async { (!alive(&shell)).then_some(()) }).await;
    assert!(left.is_some(), "it is still written to");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(9), "only {took:?}");
}
