//! Client's end of a tunnel: on a socket that this side opened.

use std::time::Duration;

use futures_util::stream::{self, SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::super::{PeerGone, SILENCE_TIMEOUT, WRITE_TIMEOUT};
use super::{MessageSink, TunnelError, TunnelMessage, control, relay};
use hotdesk_wire::computer::tunnel::TunnelControl;

/// Time for the computer to connect to the program. On one host, a connection that succeeds does so at once; a
/// controller behind slow links needs longer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// An open tunnel.
#[derive(Debug)]
pub struct ClientTunnel<S> {
    sink: ClientSink<S>,
    stream: SplitStream<WebSocketStream<S>>,
    credit: u32,
}

#[derive(Debug)]
struct ClientSink<S>(Mutex<SplitSink<WebSocketStream<S>, Message>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ClientTunnel<S> {
    /// Waits until the computer has connected to the program.
    ///
    /// # Errors
    /// `Closed` with the computer's reason when it has not; `PeerGone` after 30 s.
    pub async fn open(socket: WebSocketStream<S>) -> Result<Self, TunnelError> {
        let (sink, mut stream) = socket.split();
        let first = tokio::time::timeout(OPEN_TIMEOUT, next(&mut stream)).await;
        match first.unwrap_or(Err(TunnelError::PeerGone))? {
            TunnelMessage::Control(TunnelControl::Credit { bytes }) => {
                Ok(Self { sink: ClientSink(Mutex::new(sink)), stream, credit: bytes })
            }
            TunnelMessage::Control(TunnelControl::End) | TunnelMessage::Data(_) => {
                Err(TunnelError::Violation("something before its credit"))
            }
        }
    }

    /// Relays between a local connection and the computer until both directions have ended. `window` is the most
    /// bytes that wait here for the local program. `half_closed` is cancelled when the first direction has ended.
    ///
    /// # Errors
    /// Those of [`super::serve`].
    pub async fn relay(
        self,
        local: impl AsyncRead + AsyncWrite + Send,
        window: u32,
        half_closed: CancellationToken,
    ) -> Result<(), TunnelError> {
        let Self { sink, stream, credit } = self;
        let incoming = stream::unfold(stream, |mut stream| async { Some((next(&mut stream).await, stream)) });
        let ended = relay::relay_with(local, incoming, &sink, credit as usize, window, half_closed).await;
        // A peer that is gone needs no close.
        let _gone = tokio::time::timeout(WRITE_TIMEOUT, sink.0.lock().await.close()).await;
        ended
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> MessageSink for ClientSink<S> {
    async fn send(&self, message: TunnelMessage) -> Result<(), PeerGone> {
        let message = match message {
            TunnelMessage::Data(bytes) => Message::Binary(bytes),
            TunnelMessage::Control(control) => {
                Message::text(serde_json::to_string(&control).map_err(|_| PeerGone)?)
            }
        };
        let sent = tokio::time::timeout(WRITE_TIMEOUT, async { self.0.lock().await.send(message).await });
        sent.await.map_err(|_| PeerGone)?.map_err(|_| PeerGone)
    }
}

/// The next message. The library answers pings by itself.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
) -> Result<TunnelMessage, TunnelError> {
    loop {
        let message = tokio::time::timeout(SILENCE_TIMEOUT, stream.next()).await;
        let Ok(Some(Ok(message))) = message else { return Err(TunnelError::PeerGone) };
        match message {
            Message::Binary(bytes) => return Ok(TunnelMessage::Data(bytes)),
            Message::Text(text) => return control(text.as_str()),
            Message::Close(Some(frame)) => {
                let reason = frame.reason.as_str().to_owned();
                return Err(TunnelError::Closed { code: u16::from(frame.code), reason });
            }
            Message::Close(None) => return Err(TunnelError::PeerGone),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}
