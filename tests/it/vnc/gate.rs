//! Access to VNC sockets: wrong tokens and broken connections lock no one else out, and there is no other
//! access to a screen.

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{open_viewer, password_path, read_bytes};
use crate::harness::agent::RunningAgent;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::socket::{Client, SocketEvent};

/// Opens a socket for a client address, as a trusted proxy in front.
async fn open_from(client: &str, controller: &RunningController, path: &str) -> Client {
    Client::open(controller.address(), path, &[("x-forwarded-for", client)]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_a_guesser_is_told_apart_and_without_one_locks_nobody_out() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_with("trusted_proxies = \"127.0.0.1\"").await;
    let id = controller.computer(&controller.workspace("demo").await, "desk").await["id"].clone();
    let id = id.as_str().expect("an id");
    let guess = format!("/desktops/{id}/ws/websockify?token=guess");
    for _ in 0..10 {
        // The client's own entry in the header is not trusted.
        assert_eq!(open_from("203.0.113.9, 192.0.2.1", &controller, &guess).await.closed().await, 4001);
    }
    let right = password_path(&controller, id, "").await;
    let SocketEvent::Closed(4001, reason) = open_from("192.0.2.1", &controller, &right).await.next().await
    else {
        panic!("the guesser's address must be limited")
    };
    assert!(reason.contains("too many"), "{reason}");
    for client in ["192.0.2.2", "203.0.113.9"] {
        assert_eq!(
            open_from(client, &controller, &right).await.next().await,
            SocketEvent::Binary(b"RFB 003.008\n".to_vec())
        );
    }
    // A connection without the header may be from anyone, so it is not limited.
    for _ in 0..20 {
        let direct = Client::open(controller.address(), &guess, &[]).await.expect("accepted");
        assert_eq!(direct.closed().await, 4001);
    }
    open_viewer(&controller, &right).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lock_the_right_user_out_of_nothing() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let right = password_path(&controller, &id, "").await;
    // Xvnc blocks addresses after broken handshakes, and all connections here have the same address.
    for _ in 0..20 {
        drop(open_viewer(&controller, &right).await);
        let mut junk = open_viewer(&controller, &right).await;
        junk.0.send(Message::Binary(b"GET / HTTP/1.1\r\n\r\n".as_slice().into())).await.expect("sent");
        assert_eq!(junk.closed().await, 4502);
    }
    let mut user = open_viewer(&controller, &right).await;
    user.0.send(Message::Binary(b"RFB 003.008\n".as_slice().into())).await.expect("sent");
    assert_eq!(read_bytes(&mut user, 2).await, [1, 1], "one security type: None");
    user.0.send(Message::Binary(vec![1].into())).await.expect("sent");
    assert_eq!(read_bytes(&mut user, 4).await, [0; 4]);
    // Text is not RFB.
    user.0.send(Message::Text("hello".into())).await.expect("sent");
    assert_eq!(user.closed().await, 4500);
    let nowhere = password_path(&controller, &id, "&screen=screen-102").await;
    assert_eq!(
        Client::open(controller.address(), &nowhere, &[]).await.expect("accepted").closed().await,
        4502
    );
    // No VNC server listens on a TCP port (5900 to 5999), and only root can use its socket.
    let ports = controller.bash(&id, "awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6").await;
    let port = |line: &str| u16::from_str_radix(line.rsplit(':').next().unwrap_or_default(), 16).unwrap_or(0);
    assert!(ports.lines().all(|line| !(5900..6000).contains(&port(line))), "{ports}");
    let modes = controller.bash(&id, "find /run /tmp -name 'vnc-*.sock' -printf '%m %u\\n'").await;
    assert_eq!(modes.trim(), "600 root");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_told_to_viewers() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let path = password_path(&controller, &id, "").await;
    let viewer = open_viewer(&controller, &path).await;
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    assert_eq!(viewer.closed().await, 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_alone_shares_its_own_screen_and_says_why_it_does_not_share_another_s() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    if !std::path::Path::new("/usr/bin/Xvnc").exists() {
        return Capability::X11.skip("Xvnc is not installed");
    }
    let path = format!("/ws/websockify?token={}", agent.token());
    let mut own = Client::open(agent.address(), &path, &[("sec-websocket-protocol", "binary")]).await;
    let own = own.as_mut().expect("accepted");
    assert_eq!(own.next().await, SocketEvent::Binary(b"RFB 003.008\n".to_vec()));
    let screens = agent.get("/screens").await.body;
    let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
    let guest = RunningAgent::with(&["--display", &display]).await;
    let path = format!("/ws/websockify?token={}", guest.token());
    let mut foreign = Client::open(guest.address(), &path, &[]).await.expect("accepted");
    let SocketEvent::Closed(4502, reason) = foreign.next().await else {
        panic!("a screen of another agent must not be shared")
    };
    assert!(reason.contains("no VNC server"), "{reason}");
    let headless = RunningAgent::headless().await;
    let path = format!("/ws/websockify?token={}", headless.token());
    let nothing = Client::open(headless.address(), &path, &[]).await.expect("accepted");
    assert_eq!(nothing.closed().await, 4502);
}
