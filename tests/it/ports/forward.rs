//! `hotdesk forward` on a real computer.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TIMEOUT, forward, start_server};
use crate::cli::person::Shell;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// Stores what it receives to its end, then sends it back.
const ECHO: &str = r#"
import socket, threading
listening = socket.create_server(("127.0.0.1", 3000))
def serve(connection):
    with open("/tmp/got-%d" % connection.fileno(), "w+b") as stored:
        while received := connection.recv(65536):
            stored.write(received)
        stored.seek(0)
        connection.sendfile(stored)
    connection.close()
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],)).start()
"#;

/// Sends some bytes, then resets the connection.
const RESET: &str = r#"
import socket, struct
listening = socket.create_server(("::1", 3002), family=socket.AF_INET6)
waiting = socket.create_server(("127.0.0.1", 3003))
probe = socket.create_server(("127.0.0.1", 3004))
while True:
    connection, _ = listening.accept()
    connection.sendall(b"part")
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
"#;

/// Bytes that no compression or repetition hides an error in.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Sends bytes, half-closes, pauses, and returns what comes back.
async fn echo(local: &str, sent: &[u8], pause: Duration) -> Vec<u8> {
    let mut connection = TcpStream::connect(local).await.expect("a forwarded port");
    connection.write_all(sent).await.expect("the program reads");
    connection.shutdown().await.expect("a half-close");
    tokio::time::sleep(pause).await;
    let mut back = Vec::new();
    connection.read_to_end(&mut back).await.expect("the program answers");
    back
}

async fn until_printed(errors: &Path, text: &str) {
    let printed = async || {
        let all = std::fs::read_to_string(errors).expect("a file");
        all.contains(text).then_some(())
    };
    let seen = wait::until(TIMEOUT, printed).await;
    seen.unwrap_or_else(|| panic!("{text:?} is not in {:?}", std::fs::read_to_string(errors)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_port_carries_bytes_exactly_and_half_closes() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    start_server(&controller, &id, 3000, ECHO).await;
    let errors = shell.file("errors");
    let (_forward, local) = forward(&controller, controller.key(), &id, 3000, &errors).await;
    let large = noise(50_000_000);
    let back = echo(&local, &large, Duration::ZERO).await;
    assert!(back == large, "{} of {} bytes came back, or others", back.len(), large.len());
    // Connections do not wait for each other, and one that is not read for longer than a socket waits loses nothing.
    let paused = Duration::from_secs(12);
    let (slow, [first, second]) = tokio::join!(echo(&local, &large[..20_000_000], paused), async {
        [echo(&local, b"one", Duration::ZERO).await, echo(&local, b"", Duration::ZERO).await]
    });
    assert!(slow == large[..20_000_000], "{} bytes came back, or others", slow.len());
    assert_eq!((&*first, &*second), (&b"one"[..], &b""[..]));
    assert_eq!(std::fs::read_to_string(&errors).expect("a file"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_connection_ends_as_the_program_s_does_and_with_the_key() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let errors = shell.file("errors");
    // The program listens on the IPv6 address alone.
    start_server(&controller, &id, 3004, RESET).await;
    let (_broken, local) = forward(&controller, controller.key(), &id, 3002, &errors).await;
    let mut connection = TcpStream::connect(&local).await.expect("a forwarded port");
    connection.write_all(b"go").await.expect("the program reads");
    let mut back = Vec::new();
    let ended = connection.read_to_end(&mut back).await.expect_err("a reset is no end");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "{back:?}");
    until_printed(&errors, "the connection to the program broke").await;

    let (_nobody, local) = forward(&controller, controller.key(), &id, 3999, &errors).await;
    let mut connection = TcpStream::connect(&local).await.expect("a forwarded port");
    let ended = connection.read(&mut [0]).await;
    assert!(ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    until_printed(&errors, "nothing listens on port 3999 of the computer (4503)").await;

    let created = controller.create("/keys", json!({"name": "laptop"})).await;
    let (_revoked, local) =
        forward(&controller, created["key"].as_str().expect("a key"), &id, 3003, &errors).await;
    let mut connection = TcpStream::connect(&local).await.expect("a forwarded port");
    connection.write_all(b"waits").await.expect("an open connection");
    let held = async || {
        let record = controller.get(&format!("/computers/{id}")).await.body;
        let holds = record["auto_stop"]["held_by"].as_array().cloned().unwrap_or_default();
        holds.iter().any(|hold| hold["kind"] == "port").then_some(())
    };
    let patched = controller.patch(&format!("/computers/{id}/auto-stop"), json!({"minutes": 30})).await;
    assert_eq!(patched.status, 200, "{}", patched.body);
    wait::until(Duration::from_secs(120), held).await.expect("an open connection keeps the computer up");
    assert_eq!(controller.delete(&format!("/keys/{}", id_of(&created))).await.status, 200);
    let ended = tokio::time::timeout(TIMEOUT, connection.read(&mut [0])).await.expect("an end");
    assert!(ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    until_printed(&errors, "(4401)").await;

    shell.run(&["forward", &id, "8080"]).await.expect_failure(2, &["the computer itself uses"]);
    let (_, port) = local.rsplit_once(':').expect("an address");
    let taken = shell.run(&["forward", &id, &format!("3000:{port}")]).await;
    taken.expect_failure(1, &["cannot listen on", "3000:LOCAL"]);
    shell.run(&["forward", "nobody", "3000"]).await.expect_failure(1, &["no computer \"nobody\""]);
}
