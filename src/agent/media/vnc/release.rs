//! Release of the mouse buttons of a VNC client that has disconnected.
//!
//! Xvnc keeps a button pressed until some client releases it. The release is sent on a separate connection,
//! because the client may have ended in the middle of a message, after which its own connection accepts
//! nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};

use super::connection;

/// Timeout of the whole exchange: it usually takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Client messages before the first event (RFC 6143 sections 7.1 and 7.3): the version, no security, shared
/// access. None of them depends on the server's answers.
const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";
/// Most bytes that are read of the server: its version, security types, size and name take less than 200.
const MAX_ANSWER: u64 = 4096;

/// Sends a PointerEvent to the server of a socket. Logs a warning when that fails.
pub(super) async fn send(socket: &Path, event: [u8; 6]) {
    let failed = match tokio::time::timeout(TIMEOUT, conversation(socket, event)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => String::from("no answer within 10 s"),
    };
    tracing::warn!(failed, "cannot release the mouse buttons of a disconnected VNC client");
}

async fn conversation(socket: &Path, event: [u8; 6]) -> io::Result<()> {
    let mut server = connection::connect(socket).await?;
    server.write_all(&[HELLO, &event].concat()).await?;
    server.shutdown().await?;
    // The server closes the connection when it has read everything.
    copy(&mut server.take(MAX_ANSWER), &mut sink()).await?;
    Ok(())
}
