//! TCP connection over a WebSocket: bytes both ways, half-close, and flow control by credit (docs/api/ports.md#tunnels).
//!
//! ```text
//! program --TCP--> relay --binary: bytes, at most the peer's credit---> relay --TCP--> program
//!                        <--text: credit for what was written ---------
//!                        --text: end (the program half-closed) ------->
//! ```
//!
//! Credit keeps a program that does not read from filling the socket, where the heartbeat would wait behind its bytes.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{CloseReason, PeerGone, PeerMessage, Receiver, Sender};
use hotdesk_wire::computer::tunnel::TunnelControl;

mod client;
mod relay;

pub use client::ClientTunnel;

/// Bytes under way in one direction between distant ends: at 100 ms round trip, 10 MB/s.
pub const WINDOW: u32 = 1024 * 1024;
/// Bytes of one message: few messages for a bulk transfer, and a heartbeat waits for little.
const CHUNK: usize = 64 * 1024;
/// Most credit that a peer may give. It bounds nothing here, because bytes are read only when they can be sent; it
/// keeps the sum in its type.
const MAX_CREDIT: usize = 1 << 30;
/// Longest silence of a connection that one side has ended. The other side may compute its answer for long, but an end
/// that nobody holds any more is not told apart.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(3600);

/// Message of a tunnel.
#[derive(Debug)]
enum TunnelMessage {
    Data(Bytes),
    Control(TunnelControl),
}

/// Why a tunnel ended before both of its directions.
#[derive(Debug)]
pub enum TunnelError {
    /// The peer closed the socket.
    Closed {
        /// Its close code.
        code: u16,
        /// Its text.
        reason: String,
    },
    /// The socket broke or was silent for 75 s.
    PeerGone,
    /// The peer violated the protocol.
    Violation(&'static str),
    /// Nothing moved for [`HALF_CLOSED_TIMEOUT`] after one side had ended.
    Idle,
    /// The connection to the program broke.
    Program(io::Error),
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { code, reason } => {
                let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
                let reason = if reason.is_empty() { "the other end closed the tunnel" } else { &reason };
                write!(f, "{reason} ({code})")
            }
            Self::PeerGone => f.write_str("the connection to the other end broke"),
            Self::Violation(what) => write!(f, "the other end sent {what}"),
            Self::Idle => {
                write!(
                    f,
                    "a half-closed connection was idle for {} minutes",
                    HALF_CLOSED_TIMEOUT.as_secs() / 60
                )
            }
            Self::Program(error) => write!(f, "the connection to the program broke: {error}"),
        }
    }
}

impl From<PeerGone> for TunnelError {
    fn from(PeerGone: PeerGone) -> Self {
        Self::PeerGone
    }
}

/// Write half of a socket, for messages of a tunnel.
trait MessageSink: Sync {
    /// Sends a message.
    fn send(&self, message: TunnelMessage) -> impl Future<Output = Result<(), PeerGone>> + Send;
}

impl MessageSink for Sender {
    async fn send(&self, message: TunnelMessage) -> Result<(), PeerGone> {
        match message {
            TunnelMessage::Data(bytes) => self.binary(bytes).await,
            TunnelMessage::Control(control) => self.json(&control).await,
        }
    }
}

/// Serves a tunnel on an accepted socket: relays between the connection to a program and the peer until both
/// directions have ended.
///
/// # Errors
/// Why it ended earlier. Bytes may then be lost, so the caller resets the connection to the program ([`reset`]).
pub async fn serve(
    program: impl AsyncRead + AsyncWrite + Send,
    sender: &Sender,
    receiver: Receiver,
) -> Result<(), TunnelError> {
    let incoming = stream::unfold(receiver, |mut receiver| async {
        let message = match receiver.receive().await? {
            PeerMessage::Binary(bytes) => Ok(TunnelMessage::Data(bytes)),
            PeerMessage::Text(text) => control(text.as_str()),
        };
        Some((message, receiver))
    });
    relay::relay(program, incoming, sender, 0, WINDOW).await
}

/// Parses a text message.
fn control(text: &str) -> Result<TunnelMessage, TunnelError> {
    let parsed = serde_json::from_str(text);
    parsed
        .map(TunnelMessage::Control)
        .map_err(|_| TunnelError::Violation("a text that is no control message"))
}

/// Makes the end of a broken connection a reset, so that its program does not take a part for the whole.
pub fn reset(connection: impl AsFd) {
    // A connection that is gone already needs no reset.
    let _gone = rustix::net::sockopt::set_socket_linger(connection, Some(Duration::ZERO));
}

/// Returns how the server of a tunnel closes its socket.
pub fn closing(ended: &Result<(), TunnelError>, failed: u16) -> CloseReason {
    match ended {
        Ok(()) => CloseReason::new(hotdesk_domain::desktop::channel::NORMAL, ""),
        Err(error) => CloseReason::new(failed, error.to_string()),
    }
}
