//! How is a button let go whose client is gone? Xvnc takes it for held until some client says otherwise.
//!
//! That is said on a connection of our own: a client may have ended in the middle of a message, behind which its own
//! connection takes nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::UnixStream;

/// How long it may take: milliseconds, but of a server that hangs for a while.
const TIMEOUT: Duration = Duration::from_secs(10);
/// All that a client says before its messages (RFC 6143 sections 7.1 and 7.3): the version, no security, and that others
/// stay connected. None of it depends on what the server answers.
const HELLO: &[u8] = b"RFB 003.008\n\x01\x01";
/// Most bytes that the server says meanwhile: its version, security types, size and name are below 200.
const MAX_ANSWER: u64 = 4096;

/// Says a PointerEvent to the server of a socket; on return it was heard, or a warning tells why not.
pub(super) async fn say(socket: &Path, event: [u8; 6]) {
    let failed = match tokio::time::timeout(TIMEOUT, conversation(socket, event)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => String::from("it does not answer"),
    };
    tracing::warn!(failed, "a VNC server could not be told that a client's buttons are up");
}

async fn conversation(socket: &Path, event: [u8; 6]) -> io::Result<()> {
    let mut server = UnixStream::connect(socket).await?;
    server.write_all(&[HELLO, &event].concat()).await?;
    server.shutdown().await?;
    // It ends the connection once it has read all.
    copy(&mut server.take(MAX_ANSWER), &mut sink()).await?;
    Ok(())
}
