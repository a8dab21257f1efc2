//! Broken and random frames on every socket of a computer, those of an API key included (T12, docs/security.md).

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::routing::{any, get};
use hotdesk::domain::desktop::channel::Channel;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::access::ssh_keys::public_key;
use crate::channels::broken::{expect_closed, violations};
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// Random conversations on each socket, and frames of each.
const CONVERSATIONS: usize = 20;
const FRAMES: usize = 60;

/// An agent whose channels take everything and say nothing.
fn silent_channels() -> Router {
    let silent = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| while let Some(Ok(_)) = socket.recv().await {})
    };
    let host_keys = async || axum::Json(json!({"user": "root", "host_keys": [public_key(7)]}));
    Router::new().route("/ws/{channel}", any(silent)).route("/ssh/host-keys", get(host_keys))
}

/// A controller, and the sockets of a computer: path, and `Authorization`.
async fn sockets() -> (Simulation, Vec<(String, String)>) {
    let controller = Simulation::boot_with(silent_channels()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    controller.create("/keys/ssh", json!({"public_key": public_key(1)})).await;
    let password = controller.get(&format!("/computers/{computer}/vnc-password")).await.body;
    let password = format!("Bearer {}", password["password"].as_str().expect("a password"));
    let key = format!("Bearer {}", controller.key());
    let channels = Channel::BY_PASSWORD.map(|channel| format!("/desktops/{computer}/ws/{}", channel.name()));
    let by_password = channels.map(|path| (path, password.clone()));
    let by_key = ["ssh", "tcp/3000"].map(|rest| (format!("/api/computers/{computer}/{rest}"), key.clone()));
    (controller, by_password.into_iter().chain(by_key).collect())
}

async fn open(controller: &Simulation, (path, bearer): &(String, String)) -> Client {
    let opened = Client::open(controller.address(), path, &[("authorization", bearer)]).await;
    opened.unwrap_or_else(|status| panic!("{path}: {status}"))
}

/// A masked frame (RFC 6455 section 5.2): mostly a control frame, sometimes of data, a part, or broken.
fn random_frame(random: &mut StdRng) -> Vec<u8> {
    let opcode =
        if random.random_bool(0.9) { random.random_range(8..=10) } else { random.random_range(0..=15_u8) };
    let first = opcode | if random.random_bool(0.95) { 0x80 } else { random.random_range(0..=15_u8) << 4 };
    let length = random.random_range(0..=125_u8);
    let mask: [u8; 4] = random.random();
    let payload = (0..length).map(|_| random.random::<u8>());
    [first, 0x80 | length].into_iter().chain(mask).chain(payload).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_every_socket_closes_on_a_violation_with_its_code() {
    let (controller, sockets) = sockets().await;
    for socket in &sockets {
        for violation in violations() {
            println!("{} {}", socket.0, violation.0);
            expect_closed(open(&controller, socket).await, violation).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_random_control_frames_end_their_socket_and_nothing_else() {
    let requested = std::env::var("HOTDESK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = requested.unwrap_or_else(rand::random::<u64>);
    println!("HOTDESK_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (controller, sockets) = sockets().await;
    for socket in sockets.iter().cycle().take(CONVERSATIONS * sockets.len()) {
        let mut client = open(&controller, socket).await;
        let frames: Vec<u8> = (0..FRAMES).flat_map(|_| random_frame(&mut random)).collect();
        let stream = client.0.get_mut();
        // The server may close before it has read everything.
        let _sent = stream.write_all(&frames).await;
        let _ended = stream.shutdown().await;
        // It ends, by whichever code, or the harness's time is over.
        while !matches!(client.next().await, SocketEvent::Closed(..) | SocketEvent::Cut) {}
    }
    for socket in &sockets {
        drop(open(&controller, socket).await);
    }
    assert_eq!(controller.get("/workspaces").await.status, 200);
}
