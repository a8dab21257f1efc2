//! How are connections served? hyper with the time-outs that `axum::serve` lacks, a cap, and a drain.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

use hotdesk_base::tally::{Seat, Tally};
use hotdesk_base::tasks::Tasks;

/// A request's header must be whole after this long (threats.md T13).
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest header block: 64 KiB holds every real client's and bounds what a connection can make us keep.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Connections at once, WebSockets included; past it new ones wait in the kernel's queue. 4096 x about 100 KB stays below half a gigabyte.
pub(super) const MAX_CONNECTIONS: usize = 4096;
/// Connections at once from one address: a quarter of all, so that no single source shuts the others out (threats.md
/// T13). Loopback is free of it: a reverse proxy there stands for everybody.
const MAX_PER_SOURCE: usize = MAX_CONNECTIONS / 4;
/// How long connections may finish what they do after a stop was asked.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `ADDR:PORT`; port 0 takes a free one.
    Tcp(SocketAddr),
    /// `unix:PATH`; created with mode 0600.
    Unix(PathBuf),
    /// `fd:N`: an inherited listening unix socket (how an engine hands an agent its socket).
    Inherited(RawFd),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if let Some(number) = text.strip_prefix("fd:") {
            let fd: RawFd = number.parse().map_err(|_| format!("{text:?} is not fd:NUMBER"))?;
            return if fd > 2 {
                Ok(Self::Inherited(fd))
            } else {
                Err(format!("{text:?} names a standard stream"))
            };
        }
        text.parse().map(Self::Tcp).map_err(|_| format!("{text:?} is not ADDR:PORT, unix:PATH or fd:NUMBER"))
    }
}

/// A bound listener.
#[derive(Debug)]
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

/// Binds; the real address is in the result.
///
/// # Errors
/// When the address is taken or may not be used.
pub async fn bind(listen: &Listen) -> io::Result<Bound> {
    match listen {
        Listen::Tcp(address) => Ok(Bound::Tcp(TcpListener::bind(address).await?)),
        Listen::Unix(path) => bind_unix(path).map(Bound::Unix),
        Listen::Inherited(fd) => {
            // SAFETY: the number comes from our own command line, whose author handed this process that descriptor and
            // uses it for nothing else.
            #[allow(unsafe_code)]
            let owned = unsafe { OwnedFd::from_raw_fd(*fd) };
            rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
            let listener = std::os::unix::net::UnixListener::from(owned);
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener).map(Bound::Unix)
        }
    }
}

/// Binds beside the path and moves the socket there once it is private: nobody else can connect in between, and an
/// earlier socket is replaced in one step.
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

/// Accepts until the tasks' group is told to stop. Connections are tasks of the group: told to stop, each finishes
/// the request it is at, for at most [`DRAIN_TIMEOUT`]. Handlers may extract `ConnectInfo<Peer>`.
pub async fn serve(bound: Bound, router: Router, tasks: &Tasks) {
    let stop = tasks.stopping();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let sources = Tally::default();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&bound) => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(pair) => pair,
            Err(error) => {
                // EMFILE and the like: wait a little instead of spinning; the listener stays.
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(seat) = admit(&sources, &peer) else {
            tracing::debug!(?peer, "too many connections from one address");
            continue;
        };
        let counted = Counted { _place: Arc::new((slot, seat)) };
        let kept = counted.clone();
        let service =
            router.clone().map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(ConnectInfo(peer.clone()));
                request.extensions_mut().insert(counted.clone());
                request
            });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .with_upgrades();
        let stop = tasks.stopping();
        let _connection = tasks.spawn("connection", async move {
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
            drop(kept);
        });
    }
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A process on this machine, by a unix socket.
    Local,
}

/// A connection's place among all; it counts for as long as anybody holds it, which a WebSocket does after hyper has let
/// go of its connection.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    _place: Arc<(OwnedSemaphorePermit, Option<Seat<IpAddr>>)>,
}

/// Counts a connection for its address; `None` when that has too many.
fn admit(sources: &Tally<IpAddr>, peer: &Peer) -> Option<Option<Seat<IpAddr>>> {
    match peer {
        Peer::Tcp(address) if !address.ip().to_canonical().is_loopback() => {
            sources.admit(address.ip().to_canonical(), MAX_PER_SOURCE).map(Some)
        }
        Peer::Tcp(_) | Peer::Local => Some(None),
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn accept(bound: &Bound) -> io::Result<(Box<dyn Stream>, Peer)> {
    match bound {
        Bound::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream), Peer::Tcp(peer)))
        }
        Bound::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok((Box::new(stream), Peer::Local))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_every_connection() {
        let sources = Tally::default();
        let peer = |text: &str| Peer::Tcp(text.parse().unwrap());
        let seats: Vec<_> =
            (0..MAX_PER_SOURCE).map(|_| admit(&sources, &peer("192.0.2.1:1")).expect("a seat")).collect();
        assert!(admit(&sources, &peer("192.0.2.1:2")).is_none());
        assert!(admit(&sources, &peer("[::ffff:192.0.2.1]:2")).is_none(), "the same address");
        assert!(admit(&sources, &peer("192.0.2.2:1")).is_some());
        let local = (0..=MAX_PER_SOURCE).filter_map(|_| admit(&sources, &peer("127.0.0.1:1")));
        assert_eq!(local.count(), MAX_PER_SOURCE + 1, "a proxy on this host stands for everybody");
        drop(seats);
        assert!(admit(&sources, &peer("192.0.2.1:3")).is_some());
    }
}
