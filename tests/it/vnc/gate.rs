//! Does junk lock nobody out, and is there no other way to a screen than its socket?

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{bytes, greeted, with_password};
use crate::harness::agent::RunningAgent;
use crate::harness::controller::{RunningController, no_computers_here};
use crate::harness::socket::{Came, Client};

/// Opens a socket for a client of the proxy in front.
async fn from(client: &str, house: &RunningController, path: &str) -> Client {
    Client::open(house.address(), path, &[("x-forwarded-for", client)]).await.expect("accepted")
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_a_guesser_is_told_apart_and_without_one_locks_nobody_out() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_with("trusted_proxies = \"127.0.0.1\"").await;
    let id = house.computer(&house.workspace("demo").await, "desk").await["id"].clone();
    let id = id.as_str().expect("an id");
    let guess = format!("/desktops/{id}/ws/websockify?token=guess");
    for _ in 0..10 {
        // What the guesser itself claims to speak for is not believed.
        assert_eq!(from("203.0.113.9, 192.0.2.1", &house, &guess).await.closed().await, 4001);
    }
    let right = with_password(&house, id, "").await;
    let Came::Closed(4001, reason) = from("192.0.2.1", &house, &right).await.next().await else {
        panic!("a guesser is listened to")
    };
    assert!(reason.contains("too many"), "{reason}");
    for client in ["192.0.2.2", "203.0.113.9"] {
        assert_eq!(from(client, &house, &right).await.next().await, Came::Binary(b"RFB 003.008\n".to_vec()));
    }
    // Who comes without the proxy's word may be anybody.
    for _ in 0..20 {
        let stranger = Client::open(house.address(), &guess, &[]).await.expect("accepted");
        assert_eq!(stranger.closed().await, 4001);
    }
    greeted(&house, &right).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lock_the_right_user_out_of_nothing() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let right = with_password(&house, &id, "").await;
    // Xvnc itself shuts out who connects and says nothing, by the address, which is one for all here.
    for _ in 0..20 {
        drop(greeted(&house, &right).await);
        let mut junk = greeted(&house, &right).await;
        junk.0.send(Message::Binary(b"GET / HTTP/1.1\r\n\r\n".as_slice().into())).await.expect("sent");
        assert_eq!(junk.closed().await, 4502);
    }
    let mut user = greeted(&house, &right).await;
    user.0.send(Message::Binary(b"RFB 003.008\n".as_slice().into())).await.expect("sent");
    assert_eq!(bytes(&mut user, 2).await, [1, 1], "one security type, none");
    user.0.send(Message::Binary(vec![1].into())).await.expect("sent");
    assert_eq!(bytes(&mut user, 4).await, [0; 4]);
    // Neither does it take what is no RFB.
    user.0.send(Message::Text("hello".into())).await.expect("sent");
    assert_eq!(user.closed().await, 4500);
    let nowhere = with_password(&house, &id, "&screen=screen-102").await;
    assert_eq!(Client::open(house.address(), &nowhere, &[]).await.expect("accepted").closed().await, 4502);
    // No VNC server has a TCP port (5900 to 5999), and its socket is root's.
    let ports = house.bash(&id, "awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6").await;
    let port = |line: &str| u16::from_str_radix(line.rsplit(':').next().unwrap_or_default(), 16).unwrap_or(0);
    assert!(ports.lines().all(|line| !(5900..6000).contains(&port(line))), "{ports}");
    let modes = house.bash(&id, "find /run /tmp -name 'vnc-*.sock' -printf '%m %u\\n'").await;
    assert_eq!(modes.trim(), "600 root");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_told_to_viewers() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let path = with_password(&house, &id, "").await;
    let viewer = greeted(&house, &path).await;
    assert_eq!(house.act(&id, "stop", json!({})).await.status, 200);
    assert_eq!(viewer.closed().await, 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_alone_shares_its_own_screen_and_says_why_it_does_not_share_another_s() {
    let Some(agent) = RunningAgent::with_a_screen().await else { return };
    if !std::path::Path::new("/usr/bin/Xvnc").exists() {
        return println!("skipped: Xvnc is not installed");
    }
    let path = format!("/ws/websockify?token={}", agent.token());
    let mut own = Client::open(agent.address(), &path, &[("sec-websocket-protocol", "binary")]).await;
    let own = own.as_mut().expect("accepted");
    assert_eq!(own.next().await, Came::Binary(b"RFB 003.008\n".to_vec()));
    let screens = agent.get("/screens").await.body;
    let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
    let guest = RunningAgent::with(&["--display", &display]).await;
    let path = format!("/ws/websockify?token={}", guest.token());
    let mut foreign = Client::open(guest.address(), &path, &[]).await.expect("accepted");
    let Came::Closed(4502, reason) = foreign.next().await else { panic!("it is shared") };
    assert!(reason.contains("no VNC server"), "{reason}");
    let headless = RunningAgent::headless().await;
    let path = format!("/ws/websockify?token={}", headless.token());
    let nothing = Client::open(headless.address(), &path, &[]).await.expect("accepted");
    assert_eq!(nothing.closed().await, 4502);
}
