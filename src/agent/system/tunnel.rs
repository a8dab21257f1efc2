//! Tunnels: TCP connections to programs of this computer, each over a socket of the agent (docs/api/ports.md#tunnels).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use hotdesk_domain::computer::template::network::guest_port;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY};
use hotdesk_http::socket::{CloseReason, Receiver, Sender, tunnel};

/// Most tunnels: a page with its sockets takes ten, a pool of database connections a hundred; each has buffers of up
/// to 1 MiB.
pub const MAX_TUNNELS: usize = 256;
/// How long a connection may take to open: the queue of a program on this computer may be full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a socket with a connection to a port until both ends have ended it or `stop` is cancelled. `open` is the
/// number of tunnels with this one.
pub async fn serve(
    port: Option<&str>,
    open: usize,
    sender: Sender,
    receiver: Receiver,
    stop: CancellationToken,
) -> CloseReason {
    let failed = |failure, why: String| CloseReason::new(Channel::Tcp.close_code(failure), why);
    if open > MAX_TUNNELS {
        return failed(Failure::Failed, format!("{MAX_TUNNELS} connections to ports are open already"));
    }
    let port = match port.and_then(|port| port.parse().ok()).map(guest_port) {
        Some(Ok(port)) => port,
        Some(Err(fault)) => return failed(Failure::Failed, format!("port {}", fault.message)),
        None => return failed(Failure::Failed, "the query has no port".to_owned()),
    };
    let relaying = async {
        let mut connection = match connect(port).await {
            Ok(connection) => connection,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return failed(
                    Failure::NotListening,
                    format!("nothing listens on port {port} of the computer"),
                );
            }
            Err(error) => return failed(Failure::Failed, format!("cannot connect to port {port}: {error}")),
        };
        let ended = tunnel::serve(&mut connection, &sender, receiver).await;
        if ended.is_err() {
            tunnel::reset(&connection);
        }
        tunnel::closing(&ended, Channel::Tcp.close_code(Failure::Failed))
    };
    tokio::select! {
        closing = relaying => closing,
        () = stop.cancelled() => CloseReason::new(GOING_AWAY, "the computer is stopping"),
    }
}

/// Connects to a program that listens on this computer: many listen on one of both loopback addresses alone.
async fn connect(port: u16) -> io::Result<TcpStream> {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, async {
        let refused = match TcpStream::connect(addresses[0]).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        // The first error is the one to report: a computer may have no IPv6.
        TcpStream::connect(addresses[1]).await.map_err(|_| refused)
    });
    let stream = connected.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
