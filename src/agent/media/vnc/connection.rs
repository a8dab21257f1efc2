//! Connections to the VNC server of a screen.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use hotdesk_base::wait;

/// How long Xvnc may take to accept a connection. It accepts one at a time between its other work, and the
/// kernel queues only a few more.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the server of a socket; tries again while its queue of new connections is full.
///
/// # Errors
/// Those of connect(2); `WouldBlock` when the queue stays full for [`ACCEPT_TIMEOUT`].
pub(super) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let connected = wait::until(ACCEPT_TIMEOUT, || async {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            ended => Some(ended),
        }
    });
    connected.await.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
}
