//! What is a client told that breaks the rules of WebSocket itself? The code that RFC 6455 section 7.4.1 has for it.

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::domain::channel::Channel;
use hotdesk::http::socket::MAX_MESSAGE;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use super::{open, password};
use crate::harness::agent::RunningAgent;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

/// Frames as they are on the wire, and the code for each.
fn broken() -> Vec<(&'static str, Vec<u8>, u16)> {
    let too_large = u64::try_from(MAX_MESSAGE + 1).expect("a length").to_be_bytes();
    vec![
        ("unmasked", vec![0x81, 2, b'h', b'i'], 1002),
        ("a reserved opcode", vec![0x83, 0x80, 0, 0, 0, 0], 1002),
        ("a reserved bit", vec![0xc1, 0x80, 0, 0, 0, 0], 1002),
        ("a large ping", [&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[0; 126]].concat(), 1002),
        ("no UTF-8", vec![0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe], 1007),
        ("too large a message", [&[0x82, 0xff][..], &too_large, &[0; 4]].concat(), 1009),
    ]
}

/// The code and the reason that it is closed with.
async fn closed(mut client: Client) -> (u16, String) {
    loop {
        match client.next().await {
            Came::Closed(code, reason) => return (code, reason),
            Came::Cut => panic!("the socket was cut"),
            Came::Text(_) | Came::Binary(_) => {}
        }
    }
}

async fn is_closed_for_it(mut client: Client, (what, frame, code): (&str, Vec<u8>, u16)) {
    client.0.get_mut().write_all(&frame).await.expect("it listens");
    let (told, reason) = closed(client).await;
    assert_eq!(told, code, "{what}: {reason}");
    assert!(!reason.is_empty(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_rules_is_told_which_by_the_controller() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let token = format!("?token={}", password(&house, &id).await);
    for channel in Channel::ALL {
        for broken in broken() {
            println!("{channel:?} {}", broken.0);
            is_closed_for_it(open(&house, &id, channel, &token).await, broken).await;
        }
    }
    // One that is sent to its end, and one in parts.
    for channel in Channel::ALL {
        let mut client = open(&house, &id, channel, &token).await;
        let sending = client.0.send(Message::Binary(vec![b'x'; MAX_MESSAGE + MAX_MESSAGE / 2].into()));
        let _broken_off = tokio::time::timeout(Duration::from_secs(1), sending).await;
        assert_eq!(closed(client).await.0, 1009, "{channel:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_rules_is_told_which_by_the_agent() {
    let agent = RunningAgent::headless().await;
    for channel in [Channel::Events, Channel::Terminal] {
        for broken in broken() {
            let path = format!("/ws/{}?token={}", channel.name(), agent.token());
            let client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
            is_closed_for_it(client, broken).await;
        }
    }
}

/// The largest message that is taken arrives through both sockets.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_message_is_taken() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let token = format!("?token={}", password(&house, &id).await);
    let mut client = open(&house, &id, Channel::Terminal, &token).await;
    client.0.send(Message::text("x".repeat(MAX_MESSAGE))).await.expect("it listens");
    loop {
        match client.next().await {
            Came::Text(text) if text.contains("not understood") => return,
            Came::Text(_) => {}
            came @ (Came::Binary(_) | Came::Closed(..) | Came::Cut) => panic!("{came:?}"),
        }
    }
}
