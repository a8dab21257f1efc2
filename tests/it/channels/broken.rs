//! WebSocket protocol violations and their close codes (RFC 6455 section 7.4.1).

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::domain::desktop::channel::Channel;
use hotdesk::http::socket::{MAX_MESSAGE, MAX_PINGS};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use super::{EVERYWHERE, open, password};
use crate::harness::agent::RunningAgent;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// Raw frames and the close code that each must cause.
pub fn violations() -> Vec<(&'static str, Vec<u8>, u16)> {
    let too_large = u64::try_from(MAX_MESSAGE + 1).expect("a length").to_be_bytes();
    vec![
        ("unmasked", vec![0x81, 2, b'h', b'i'], 1002),
        ("a reserved opcode", vec![0x83, 0x80, 0, 0, 0, 0], 1002),
        ("a reserved bit", vec![0xc1, 0x80, 0, 0, 0, 0], 1002),
        ("a large ping", [&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[0; 126]].concat(), 1002),
        ("no UTF-8", vec![0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe], 1007),
        ("a flood of pings", [0x89, 0x80, 0, 0, 0, 0].repeat(MAX_PINGS as usize + 1), 1008),
        ("too large a message", [&[0x82, 0xff][..], &too_large, &[0; 4]].concat(), 1009),
    ]
}

/// The close code and the reason.
async fn closed(mut client: Client) -> (u16, String) {
    loop {
        match client.next().await {
            SocketEvent::Closed(code, reason) => return (code, reason),
            SocketEvent::Cut => panic!("the socket ended without a close frame"),
            SocketEvent::Text(_) | SocketEvent::Binary(_) => {}
        }
    }
}

pub async fn expect_closed(mut client: Client, (what, frame, code): (&str, Vec<u8>, u16)) {
    client.0.get_mut().write_all(&frame).await.expect("the socket is open");
    let (received, reason) = closed(client).await;
    assert_eq!(received, code, "{what}: {reason}");
    assert!(!reason.is_empty(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_rules_is_told_which_by_the_controller() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let token = format!("?token={}", password(&controller, &id).await);
    for channel in EVERYWHERE {
        for violations in violations() {
            println!("{channel:?} {}", violations.0);
            expect_closed(open(&controller, &id, channel, &token).await, violations).await;
        }
    }
    // One message without an end and one in fragments.
    for channel in EVERYWHERE {
        let mut client = open(&controller, &id, channel, &token).await;
        let sending = client.0.send(Message::Binary(vec![b'x'; MAX_MESSAGE + MAX_MESSAGE / 2].into()));
        let _unfinished = tokio::time::timeout(Duration::from_secs(1), sending).await;
        assert_eq!(closed(client).await.0, 1009, "{channel:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_rules_is_told_which_by_the_agent() {
    let agent = RunningAgent::headless().await;
    for channel in [Channel::Events, Channel::Terminal] {
        for violations in violations() {
            let path = format!("/ws/{}?token={}", channel.name(), agent.token());
            let client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
            expect_closed(client, violations).await;
        }
    }
}

/// A message of the maximum size passes through both sockets.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_message_is_taken() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let token = format!("?token={}", password(&controller, &id).await);
    let mut client = open(&controller, &id, Channel::Terminal, &token).await;
    client.0.send(Message::text("x".repeat(MAX_MESSAGE))).await.expect("the socket is open");
    loop {
        match client.next().await {
            SocketEvent::Text(text) if text.contains("not understood") => return,
            SocketEvent::Text(_) => {}
            message @ (SocketEvent::Binary(_) | SocketEvent::Closed(..) | SocketEvent::Cut) => {
                panic!("{message:?}")
            }
        }
    }
}
