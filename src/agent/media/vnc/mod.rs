//! VNC access to a screen: RFB between a WebSocket's binary messages and the socket of the screen's Xvnc.
//!
//! Messages pass unchanged, but input of a client is dropped while somebody else holds the screen
//! ([`viewer_input`]). What a client does gets entries in the timeline ([`action_log`]). When a client ends,
//! the buttons that it holds down are released. Xvnc offers the security type "None", because the socket's
//! token was checked before; RFB's own check compares only eight bytes of a password (RFC 6143 section
//! 7.2.2).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;

use crate::display::Screen;
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::socket::last_activity::LastActivity;
use hotdesk_http::socket::{CloseReason, PeerMessage, Receiver, Sender};

mod action_log;
mod connection;
mod grouping;
mod release;
mod viewer_input;

use action_log::ActionLog;
pub use action_log::ViewedScreens;
use viewer_input::ViewerInput;

/// How long to wait for a screen that is starting. A viewer whose connection is refused reconnects by itself.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read, and so of one message: a full 720p picture of some hundred KB takes a few of them.
const PIECE: usize = 64 * 1024;
/// Idle time after which the socket is closed (docs/channels.md).
const MAX_IDLE: Duration = Duration::from_secs(30 * 60);

/// Concurrent viewers of one screen. Each takes about half a megabyte of Xvnc's memory, and Xvnc encodes every
/// change of the picture for each of them on one thread.
const MAX_VIEWERS: usize = 64;

/// The screens and their viewers.
#[derive(Clone, Debug)]
pub struct Viewers {
    /// `None` when the computer has no screens.
    screens: Option<ViewedScreens>,
    /// Viewers by the id of their screen.
    permits: KeyedSemaphore<String>,
}

/// A connection to a screen's VNC server.
struct Connection {
    screen: Arc<Screen>,
    log: ActionLog,
    socket: PathBuf,
    stream: UnixStream,
    _permit: Permit<String>,
}

impl Viewers {
    /// No viewers yet.
    pub fn new(screens: Option<ViewedScreens>) -> Self {
        Self { screens, permits: KeyedSemaphore::default() }
    }

    /// Serves one viewer of a screen (the boot screen for `None`) until one side ends or `stop` is cancelled.
    /// `by` is who acts by its input.
    pub async fn serve(
        &self,
        screen: Option<&str>,
        by: Option<Actor>,
        sender: Sender,
        receiver: Receiver,
        stop: CancellationToken,
    ) -> CloseReason {
        let connected = tokio::select! {
            connected = self.connect(screen, by) => connected,
            () = stop.cancelled() => return CloseReason::new(GOING_AWAY, "going away"),
        };
        match connected {
            Ok(connection) => relay(connection, by, sender, receiver, stop).await,
            Err(closing) => closing,
        }
    }

    async fn connect(&self, screen: Option<&str>, by: Option<Actor>) -> Result<Connection, CloseReason> {
        let refused = |error: Error| closed(Failure::Unreachable, error.message);
        let screens = self.screens.as_ref();
        let screens = screens.ok_or_else(|| closed(Failure::Unreachable, "this computer has no screens"))?;
        let displays = &screens.displays;
        let screen = displays.screen(screen).map_err(refused)?;
        let Some(permit) = self.permits.try_acquire(screen.id.clone(), MAX_VIEWERS) else {
            let full = format!("screen {} has {MAX_VIEWERS} viewers; try again when one has left", screen.id);
            return Err(closed(Failure::Failed, full));
        };
        screen.ready(SCREEN_TIMEOUT).await.map_err(refused)?;
        let socket = displays.vnc_socket(&screen);
        match connection::connect(&socket).await {
            Ok(stream) => {
                let log = ActionLog::start(screens, Arc::clone(&screen), by);
                Ok(Connection { screen, log, socket, stream, _permit: permit })
            }
            Err(error) => {
                tracing::info!(screen = screen.id, %error, "no VNC server");
                let busy = error.kind() == io::ErrorKind::WouldBlock;
                let why =
                    if busy { "has a VNC server that is busy" } else { "has no VNC server (is it Xvnc?)" };
                Err(closed(Failure::Unreachable, format!("screen {} {why}", screen.id)))
            }
        }
    }
}

/// Copies messages both ways until one side ends or `stop` is cancelled.
async fn relay(
    connection: Connection,
    by: Option<Actor>,
    sender: Sender,
    receiver: Receiver,
    stop: CancellationToken,
) -> CloseReason {
    let Connection { screen, log, socket, stream, _permit } = connection;
    let (from_server, to_server) = stream.into_split();
    let activity = LastActivity::default();
    let mut input = ViewerInput::new(screen, by, log);
    let closing = tokio::select! {
        closing = down(from_server, &sender, &activity) => closing,
        closing = up(receiver, to_server, &activity, &mut input) => closing,
        () = activity.wait_idle(MAX_IDLE) => closed(Failure::Idle, "idle for 30 minutes"),
        () = stop.cancelled() => CloseReason::new(GOING_AWAY, "going away"),
    };
    // The client's connection is closed by now: while it was open, Xvnc ignored pointer events of other
    // connections.
    if let Some(event) = input.release() {
        release::send(&socket, event).await;
    }
    input.close().await;
    closing
}

fn closed(failure: Failure, reason: impl Into<std::borrow::Cow<'static, str>>) -> CloseReason {
    CloseReason::new(Channel::Websockify.close_code(failure), reason)
}

/// Copies the server's bytes to the client.
async fn down(server: OwnedReadHalf, client: &Sender, activity: &LastActivity) -> CloseReason {
    loop {
        // The buffer is allocated only when there is something to read: an idle viewer needs none.
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
            return CloseReason::new(NORMAL, "the client does not read");
        }
        activity.touch();
    }
}

/// Copies the client's messages to the server.
async fn up(
    mut client: Receiver,
    mut server: OwnedWriteHalf,
    activity: &LastActivity,
    input: &mut ViewerInput,
) -> CloseReason {
    let mut changes = input.changes();
    loop {
        let heard = tokio::select! {
            heard = client.receive() => heard,
            // It cannot fail, because the screen lives as long as its viewers.
            _ = changes.changed() => Some(PeerMessage::Binary(Bytes::new())),
        };
        let bytes = match heard {
            Some(PeerMessage::Binary(bytes)) => bytes,
            Some(PeerMessage::Text(_)) => return closed(Failure::Failed, "RFB goes in binary messages"),
            None => return CloseReason::new(NORMAL, "bye"),
        };
        if !bytes.is_empty() {
            activity.touch();
        }
        if let Err(closing) = input.forward(&bytes, &mut server).await {
            return closing;
        }
    }
}

fn server_ended() -> CloseReason {
    closed(Failure::Unreachable, "the screen's VNC server ended the connection")
}
