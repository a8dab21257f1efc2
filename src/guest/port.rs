//! HTTP to a program that listens on a port of the computer, through a tunnel of its own for each request.
//!
//! ```text
//! request -> hyper's client -> buffer in memory -> tunnel -> agent -> program
//! ```
//!
//! The program is as untrusted as the agent: its header is bounded, and the caller selects the fields that pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Guest, failure};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::{Channel, Failure};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::socket::tunnel::{ClientTunnel, TunnelError};

/// Bytes of an answer that wait here for a client: the agent is on this host or near it, and many requests wait.
const WINDOW: u32 = 128 * 1024;
/// Bytes between the tunnel and hyper's client, in each direction.
const BUFFER: usize = 16 * 1024;
/// Largest header of an answer in bytes, as for requests.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Time in which the last bytes of a connection leave after hyper's client has dropped it.
const LINGER: Duration = Duration::from_secs(2);

/// The near end of a tunnel; its drop ends the tunnel.
struct TunnelStream {
    stream: DuplexStream,
    /// Whether the tunnel ended before the program's answer did.
    broken: Arc<AtomicBool>,
    _dropped: DropGuard,
}

impl Guest {
    /// Sends a request to the program that listens on `port`; its target is a path. Upgrades pass. `permit` is held
    /// until the connection to the program has ended. When `ended` resolves, the computer does not run any more.
    ///
    /// # Errors
    /// `BadGateway`: `port_not_listening` when no program listens there, `port_broken` when it ends its connection or
    /// speaks no HTTP. Those of [`Guest::socket`] when the agent cannot be reached.
    pub async fn request_port(
        &self,
        port: u16,
        request: Request<Body>,
        tasks: &Tasks,
        permit: impl Send + 'static,
        ended: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Response<Incoming>> {
        let query = [("port", port.to_string())];
        let socket = self.socket(&format!("/ws/{}", Channel::Tcp.name()), query).await?;
        let tunnel = ClientTunnel::open(socket).await.map_err(|error| unopened(port, error))?;
        let stream = TunnelStream::start(tunnel, port, tasks, permit, ended);
        let mut client = http1::Builder::new();
        client.max_buf_size(MAX_HEADER_BYTES);
        let broken = |error: hyper::Error| {
            let message = format!(
                "The program on port {port} of the computer broke its connection off or speaks no HTTP"
            );
            Error::bad_gateway(message).code(ErrorCode::PortBroken).context(failure::chain(&error))
        };
        let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let _connection = tasks.spawn("port connection", async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(port, %error, "a connection to a program in a computer ended early");
            }
        });
        sender.send_request(request).await.map_err(broken)
    }
}

/// Why a tunnel was not opened. Texts of an agent are not passed on.
fn unopened(port: u16, error: TunnelError) -> Error {
    let code = Channel::Tcp.close_code(Failure::NotListening);
    if matches!(&error, TunnelError::Closed { code: closed, .. } if *closed == code) {
        let message = format!("Nothing listens on port {port} of the computer: start the program there");
        return Error::bad_gateway(message).code(ErrorCode::PortNotListening);
    }
    Error::unavailable("The computer could not connect to the port").retry_after(2).context(error)
}

impl TunnelStream {
    fn start(
        tunnel: ClientTunnel<super::connect::Stream>,
        port: u16,
        tasks: &Tasks,
        permit: impl Send + 'static,
        ended: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (stream, mut far) = tokio::io::duplex(BUFFER);
        let broken = Arc::new(AtomicBool::new(false));
        let is_broken = Arc::clone(&broken);
        let (dropped, half_closed) = (CancellationToken::new(), CancellationToken::new());
        let guard = dropped.clone().drop_guard();
        let _tunnel = tasks.spawn("port tunnel", async move {
            let unused = async {
                dropped.cancelled().await;
                // The drop is an end for the relay, which it passes on.
                let _sent = tokio::time::timeout(LINGER, half_closed.cancelled()).await;
            };
            let whole = tokio::select! {
                ended = tunnel.relay(&mut far, WINDOW, half_closed.clone()) => {
                    let shown = |error: &TunnelError| tracing::debug!(port, %error, "a tunnel to a computer broke");
                    ended.inspect_err(shown).is_ok()
                }
                () = unused => true,
                () = ended => false,
            };
            // Before the near end sees the end of the bytes.
            is_broken.store(!whole, Ordering::Release);
            drop((far, permit));
        });
        Self { stream, broken, _dropped: guard }
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        // An answer without a length ends with its connection: a part must not pass for the whole.
        if read.is_ok() && buf.filled().len() == before && self.broken.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
