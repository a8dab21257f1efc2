//! How is a screen shared live? RFB between a WebSocket's binary messages and the socket of the screen's Xvnc.
//!
//! Bytes pass as they are; what a client holds down when it ends is let go in its place. Xvnc offers the security type
//! "None": the socket's token was checked before, and RFB's own check would compare eight bytes of the same password
//! (RFC 6143 section 7.2.2).

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;

use super::display::Displays;
use super::quiet::Quiet;
use hotdesk_domain::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::Error;
use hotdesk_domain::rfb::Pressed;
use hotdesk_http::socket::{Closing, Heard, Receiver, Sender};

mod release;

/// How long a screen that is starting is waited for; a viewer that is told it is away comes back by itself.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long Xvnc may take to read what a client said: it is on this machine, and one that hangs reads nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read, and so of one message: a full picture at 720p is some hundred KB, which this makes a few of.
const PIECE: usize = 64 * 1024;
/// Without a byte from or to the client for this long, the socket is closed (wire.md 10.3).
const MAX_IDLE: Duration = Duration::from_secs(30 * 60);

/// Serves one viewer of a screen, the boot screen when none is named, until one side ends.
pub async fn websockify(
    displays: Option<&Displays>,
    screen: Option<&str>,
    sender: Sender,
    receiver: Receiver,
    stop: CancellationToken,
) -> Closing {
    let server = tokio::select! {
        server = connect(displays, screen) => server,
        () = stop.cancelled() => return Closing::new(GOING_AWAY, "going away"),
    };
    let (socket, (from_server, to_server)) = match server {
        Ok((socket, stream)) => (socket, stream.into_split()),
        Err(closing) => return closing,
    };
    let quiet = Quiet::default();
    let mut pressed = Pressed::default();
    let closing = tokio::select! {
        closing = down(from_server, &sender, &quiet) => closing,
        closing = up(receiver, to_server, &quiet, &mut pressed) => closing,
        () = quiet.lasts(MAX_IDLE) => closed(Failure::Idle, "nothing moved for 30 minutes"),
        () = stop.cancelled() => Closing::new(GOING_AWAY, "going away"),
    };
    // The client's own connection is closed by now: while it was there, Xvnc heard no other of what its pointer does.
    if let Some(event) = pressed.release() {
        release::say(&socket, event).await;
    }
    closing
}

fn closed(failure: Failure, reason: impl Into<std::borrow::Cow<'static, str>>) -> Closing {
    Closing::new(Channel::Websockify.close_code(failure), reason)
}

/// The connection to a screen's VNC server, and where that is.
async fn connect(
    displays: Option<&Displays>,
    screen: Option<&str>,
) -> Result<(PathBuf, UnixStream), Closing> {
    let refused = |error: Error| closed(Failure::Unreachable, error.message);
    let displays = displays.ok_or_else(|| closed(Failure::Unreachable, "this computer has no screens"))?;
    let screen = displays.screen(screen).map_err(refused)?;
    screen.ready(SCREEN_TIMEOUT).await.map_err(refused)?;
    let socket = displays.vnc_socket(&screen);
    match UnixStream::connect(&socket).await {
        Ok(stream) => Ok((socket, stream)),
        Err(error) => {
            tracing::info!(screen = screen.id, %error, "no VNC server");
            Err(closed(Failure::Unreachable, format!("screen {} has no VNC server (is it Xvnc?)", screen.id)))
        }
    }
}

/// What the server says, to the client.
async fn down(server: OwnedReadHalf, client: &Sender, quiet: &Quiet) -> Closing {
    loop {
        // Room is taken only once there is something to read: an idle viewer holds none.
        if server.readable().await.is_err() {
            return server_ended();
        }
        let mut piece = BytesMut::with_capacity(PIECE);
        match server.try_read_buf(&mut piece) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(0) | Err(_) => return server_ended(),
        }
        if client.binary(piece.freeze()).await.is_err() {
            return Closing::new(NORMAL, "the client does not read");
        }
        quiet.note();
    }
}

/// What the client says, to the server.
async fn up(
    mut client: Receiver,
    mut server: OwnedWriteHalf,
    quiet: &Quiet,
    pressed: &mut Pressed,
) -> Closing {
    while let Some(heard) = client.receive().await {
        let Heard::Binary(bytes) = heard else {
            return closed(Failure::Failed, "RFB goes in binary messages");
        };
        pressed.note(&bytes);
        match tokio::time::timeout(WRITE_TIMEOUT, server.write_all(&bytes)).await {
            Ok(Ok(())) => {
                pressed.written();
                quiet.note();
            }
            Ok(Err(_)) => return server_ended(),
            Err(_) => return closed(Failure::Failed, "the screen's VNC server does not read"),
        }
    }
    Closing::new(NORMAL, "bye")
}

fn server_ended() -> Closing {
    closed(Failure::Unreachable, "the screen's VNC server ended the connection")
}
