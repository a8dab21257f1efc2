//! HTTP server on hyper, with the timeouts, connection limits and graceful shutdown that `axum::serve` lacks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tower::ServiceExt;

use admission::Admission;
pub use admission::remember_source;
pub(super) use admission::{ConnectionPermit, MAX_CONNECTIONS};
pub use event_stream::{KEEP_ALIVE, event_stream};
pub use stalled_client::ClientMayPause;
use stalled_client::{ClientConnection, PausePermission, STALL_TIMEOUT};
pub use tls::{CertificateFiles, Tls};

use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;

mod admission;
mod event_stream;
mod stalled_client;
mod tls;

/// Longest time to receive a request's header (T13, docs/security.md).
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest header in bytes: enough for every real client, and a limit on the memory of a connection.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Time for connections to finish their request after the server starts to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `ADDR:PORT`; port 0 selects a free one.
    Tcp(SocketAddr),
    /// `unix:PATH`; created with mode 0600.
    Unix(PathBuf),
    /// `fd:N`: an inherited listening unix socket, which an engine passes to an agent.
    Inherited(RawFd),
}

impl FromStr for Listen {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let wrong = |why: &str| StepError::new(format!("{text:?} {why}"));
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if let Some(number) = text.strip_prefix("fd:") {
            let fd: RawFd = number.parse().map_err(|_| wrong("is not fd:NUMBER"))?;
            return if fd > 2 { Ok(Self::Inherited(fd)) } else { Err(wrong("names a standard stream")) };
        }
        text.parse().map(Self::Tcp).map_err(|_| wrong("is not ADDR:PORT, unix:PATH or fd:NUMBER"))
    }
}

/// A bound listener.
#[derive(Debug)]
pub enum BoundListener {
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener, Tls),
    /// A unix socket.
    Unix(UnixListener),
}

impl BoundListener {
    fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Tls(_, tls) => Some(tls),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }
}

/// Binds a listener, which knows its actual address.
///
/// # Errors
/// Those of bind(2), for example `AddrInUse`.
pub async fn bind(listen: &Listen) -> io::Result<BoundListener> {
    match listen {
        Listen::Tcp(address) => Ok(BoundListener::Tcp(TcpListener::bind(address).await?)),
        Listen::Unix(path) => bind_unix(path).map(BoundListener::Unix),
        Listen::Inherited(fd) => {
            // SAFETY: the number comes from our own command line, whose author passed this descriptor to the
            // process and uses it for nothing else.
            #[allow(unsafe_code)]
            let owned = unsafe { OwnedFd::from_raw_fd(*fd) };
            rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
            let listener = std::os::unix::net::UnixListener::from(owned);
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener).map(BoundListener::Unix)
        }
    }
}

/// Binds beside the path and renames the socket once it is private. So no other user can connect in between,
/// and an earlier socket is replaced atomically.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let mut fresh = path.to_owned().into_os_string();
    fresh.push(".new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, path)?;
    Ok(listener)
}

/// Accepts connections until the group of tasks stops. Connections are tasks of the group; on a stop each
/// finishes its present request, for at most [`DRAIN_TIMEOUT`]. Handlers may extract `ConnectInfo<Peer>`.
pub async fn serve(bound: BoundListener, router: Router, tasks: &Tasks) {
    let stop = tasks.stopping();
    let admission = Admission::new();
    loop {
        let Some(slot) = admission.free_slot().await else { break };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&bound) => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(pair) => pair,
            Err(error) => {
                // For example EMFILE: a pause avoids a busy loop.
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(connection_permit) = admission.admit(slot, &peer) else {
            tracing::debug!(?peer, "too many connections, in all or from one address");
            continue;
        };
        let recognition = admission.recognition(&peer);
        let task_permit = connection_permit.clone();
        let group = tasks.clone();
        let permission = PausePermission::default();
        let stream = ClientConnection::new(stream, STALL_TIMEOUT, permission.clone());
        let service = router
            .clone()
            .map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(group.clone());
                request.extensions_mut().insert(ConnectInfo(peer.clone()));
                request.extensions_mut().insert(connection_permit.clone());
                request.extensions_mut().insert(recognition.clone());
                request
            })
            .map_response(move |response: Response| {
                permission.note(&response);
                response
            });
        let tls = bound.tls().cloned();
        let stop = tasks.stopping();
        let _connection = tasks.spawn("connection", async move {
            let stream: Box<dyn IoStream> = match tls {
                None => Box::new(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(error) => return tracing::debug!(%error, "no TLS handshake"),
                },
            };
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER_BYTES)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                .with_upgrades();
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => Some(ended),
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::time::timeout(DRAIN_TIMEOUT, connection).await.ok()
                }
            };
            if let Some(Err(error)) = ended {
                tracing::debug!(%error, "connection ended early");
            }
            drop(task_permit);
        });
    }
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A process on this host, through a unix socket.
    Local,
}

trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

async fn accept(bound: &BoundListener) -> io::Result<(Box<dyn IoStream>, Peer)> {
    match bound {
        BoundListener::Tcp(listener) | BoundListener::Tls(listener, _) => {
            let (stream, peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream), Peer::Tcp(peer)))
        }
        BoundListener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok((Box::new(stream), Peer::Local))
        }
    }
}
