//! A stranger who occupies a public port: T12 (docs/security.md).

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use hotdesk::controller::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::port_program;
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Requests of one client address (docs/api/ports.md#public-ports).
const OF_ONE_SOURCE: usize = 8;
/// Longest time in which nothing moves.
const IDLE: Duration = Duration::from_secs(60);
/// Longest time until a silent connection has ended, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// The program accepts a socket (RFC 6455 section 4.2.2) and says nothing more.
const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Asks for a socket. Returns the connection and the beginning of the status line.
async fn ask(controller: &Simulation, path: &str, from: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(controller.address()).await.expect("a connection");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {from}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut beginning = vec![0; 12];
    stream.read_exact(&mut beginning).await.expect("the beginning of an answer");
    (stream, String::from_utf8(beginning).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_one_stranger_leaves_a_public_port_to_others() {
    let config = Config { trusted_proxies: "127.0.0.1".to_owned(), ..Config::default() };
    let agent = std::sync::Arc::new(|_: &hotdesk::engine::simulated::AgentBoot| {
        default_agent().merge(port_program::answering(ACCEPTED, false))
    });
    let controller = Simulation::boot_with_agent(agent, Setup { config, ..Setup::default() }).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    controller
        .sql(&format!("UPDATE computers SET ports = '3000:http:open:site' WHERE id = '{computer}'"))
        .await;
    let path = format!("/api/computers/{computer}/ports/3000/");
    let began = Instant::now();
    let mut held = Vec::new();
    for _ in 0..OF_ONE_SOURCE {
        let (stream, status) = ask(&controller, &path, "192.0.2.1").await;
        assert_eq!(status, "HTTP/1.1 101");
        held.push(stream);
    }
    assert_eq!(ask(&controller, &path, "192.0.2.1").await.1, "HTTP/1.1 503", "one too many of this address");
    let (_other, status) = ask(&controller, &path, "192.0.2.2").await;
    assert_eq!(status, "HTTP/1.1 101", "another address has its own");
    for stream in &mut held {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(IDLE + DEADLINE, stream.read_to_end(&mut rest));
        let _end_or_reset = ended.await.expect("a silent socket ends");
    }
    assert!(began.elapsed() >= IDLE - DEADLINE, "not before a minute: {:?}", began.elapsed());
    let again = async || (ask(&controller, &path, "192.0.2.1").await.1 == "HTTP/1.1 101").then_some(());
    assert!(wait::until(DEADLINE, again).await.is_some(), "the address has its permits again");
}
