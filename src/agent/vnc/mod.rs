//! How is a screen shared live? RFB between a WebSocket's binary messages and the socket of the screen's Xvnc.
//!
//! Bytes pass as they are. Xvnc offers the security type "None": the socket's token was checked before, and RFB's own
//! check would compare eight bytes of the same password (RFC 6143 section 7.2.2).

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;

use super::display::Displays;
use crate::domain::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use crate::domain::error::Error;
use crate::http::socket::{Closing, Heard, Receiver, Sender};

mod idle;

use idle::Activity;

/// How long a screen that is starting is waited for; a viewer that is told it is away comes back by itself.
const SCREEN_PATIENCE: Duration = Duration::from_secs(10);
/// How long Xvnc may take to read what a client said: it is on this machine, and one that hangs reads nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
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
    let (from_server, to_server) = match server {
        Ok(stream) => stream.into_split(),
        Err(closing) => return closing,
    };
    let activity = Activity::default();
    tokio::select! {
        closing = down(from_server, &sender, &activity) => closing,
        closing = up(receiver, to_server, &activity) => closing,
        () = activity.lacking_for(MAX_IDLE) => closed(Failure::Idle, "nothing moved for 30 minutes"),
        () = stop.cancelled() => Closing::new(GOING_AWAY, "going away"),
    }
}

fn closed(failure: Failure, reason: impl Into<std::borrow::Cow<'static, str>>) -> Closing {
    Closing::new(Channel::Websockify.close_code(failure), reason)
}

/// The connection to a screen's VNC server.
async fn connect(displays: Option<&Displays>, screen: Option<&str>) -> Result<UnixStream, Closing> {
    let refused = |error: Error| closed(Failure::Unreachable, error.message);
    let displays = displays.ok_or_else(|| closed(Failure::Unreachable, "this computer has no screens"))?;
    let screen = displays.screen(screen).map_err(refused)?;
    screen.ready(SCREEN_PATIENCE).await.map_err(refused)?;
    UnixStream::connect(displays.vnc_socket(&screen)).await.map_err(|error| {
        tracing::info!(screen = screen.id, %error, "no VNC server");
        closed(Failure::Unreachable, format!("screen {} has no VNC server (is it Xvnc?)", screen.id))
    })
}

/// What the server says, to the client.
async fn down(server: OwnedReadHalf, client: &Sender, activity: &Activity) -> Closing {
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
        activity.note();
    }
}

/// What the client says, to the server.
async fn up(mut client: Receiver, mut server: OwnedWriteHalf, activity: &Activity) -> Closing {
    while let Some(heard) = client.receive().await {
        let Heard::Binary(bytes) = heard else {
            return closed(Failure::Failed, "RFB goes in binary messages");
        };
        match tokio::time::timeout(WRITE_PATIENCE, server.write_all(&bytes)).await {
            Ok(Ok(())) => activity.note(),
            Ok(Err(_)) => return server_ended(),
            Err(_) => return closed(Failure::Failed, "the screen's VNC server does not read"),
        }
    }
    Closing::new(NORMAL, "bye")
}

fn server_ended() -> Closing {
    closed(Failure::Unreachable, "the screen's VNC server ended the connection")
}
