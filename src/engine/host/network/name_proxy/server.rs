//! Sockets of the name proxy, and the bounds of what a guest can ask.

use std::io;
use std::net::{TcpListener as StdTcpListener, UdpSocket as StdUdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::host::network::name_proxy::answer::{Resolution, Transport};
use hotdesk_base::tasks::Tasks;

/// Questions a second, on average. A browser that opens a large page asks some dozens at once.
const RATE: f64 = 100.0;
/// Questions at once after a pause.
const BURST: f64 = 300.0;
/// Questions that are being resolved. Each holds a socket to a name server.
const MAX_PENDING: usize = 128;
/// Connections by TCP: programs use one or two, after a truncated answer.
const MAX_CONNECTIONS: usize = 16;
/// Largest question: a name has at most 255 bytes, and options of EDNS are short.
const MAX_QUESTION: usize = 1024;
/// For the next question on a connection, and for a slow reader (RFC 7766 section 6.2.3 asks for seconds).
const IDLE: Duration = Duration::from_secs(10);
/// Pause after an error of a socket, which may repeat.
const PAUSE: Duration = Duration::from_millis(50);

/// A token bucket: [`RATE`] a second, at most [`BURST`].
#[derive(Debug)]
struct RateLimit {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST, filled: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * RATE).min(BURST);
        self.filled = now;
        let admits = self.tokens >= 1.0;
        if admits {
            self.tokens -= 1.0;
        }
        admits
    }
}

struct Server {
    resolution: Resolution,
    rate: Mutex<RateLimit>,
    pending: Semaphore,
}

impl Server {
    /// Answers a message. What exceeds the bounds gets no answer, as from a name server that is overloaded: programs ask again.
    async fn answer(&self, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let admits = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        let _turn = self.pending.try_acquire().ok().filter(|_| admits)?;
        self.resolution.answer(message, transport).await
    }
}

/// Serves the guest on two sockets. The returned future never ends.
///
/// # Errors
/// When the sockets cannot be registered.
pub(super) fn serve(
    udp: StdUdpSocket,
    tcp: StdTcpListener,
    resolution: Resolution,
    tasks: Tasks,
) -> io::Result<impl Future<Output = ()>> {
    udp.set_nonblocking(true)?;
    tcp.set_nonblocking(true)?;
    let (udp, tcp) = (Arc::new(UdpSocket::from_std(udp)?), TcpListener::from_std(tcp)?);
    let rate = Mutex::new(RateLimit::new(Instant::now()));
    let server = Arc::new(Server { resolution, rate, pending: Semaphore::new(MAX_PENDING) });
    Ok(async move {
        tokio::join!(
            serve_udp(&server, &udp, &tasks),
            serve_tcp(&server, &tcp, &tasks),
            server.resolution.keep_blocked()
        );
    })
}

async fn serve_udp(server: &Arc<Server>, socket: &Arc<UdpSocket>, tasks: &Tasks) {
    let mut buffer = [0; MAX_QUESTION];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let message = buffer.get(..length).unwrap_or_default().to_vec();
        let (server, socket) = (Arc::clone(server), Arc::clone(socket));
        let _question = tasks.spawn("question", async move {
            if let Some(answer) = server.answer(&message, Transport::Udp).await {
                // A lost answer is asked for again.
                let _sent = socket.send_to(&answer, peer).await;
            }
        });
    }
}

async fn serve_tcp(server: &Arc<Server>, listener: &TcpListener, tasks: &Tasks) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let server = Arc::clone(server);
        let _connection = tasks.spawn("connection", async move {
            let _place = place;
            // A connection that breaks is made again.
            let _ended = serve_connection(&server, stream).await;
        });
    }
}

/// Answers the questions of a connection, one after another, each with its length before it (RFC 1035 section 4.2.2).
async fn serve_connection(server: &Server, mut stream: TcpStream) -> io::Result<()> {
    let late = |_: tokio::time::error::Elapsed| io::Error::from(io::ErrorKind::TimedOut);
    loop {
        let read = async {
            let length = usize::from(stream.read_u16().await?);
            if length > MAX_QUESTION {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut message = vec![0; length];
            stream.read_exact(&mut message).await?;
            Ok::<_, io::Error>(message)
        };
        let message = tokio::time::timeout(IDLE, read).await.map_err(late)??;
        let Some(answer) = server.answer(&message, Transport::Tcp).await else { return Ok(()) };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let write = async {
            stream.write_u16(length).await?;
            stream.write_all(&answer).await?;
            Ok::<_, io::Error>(())
        };
        tokio::time::timeout(IDLE, write).await.map_err(late)??;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_by_burst_and_rate() {
        let begun = Instant::now();
        let mut limit = RateLimit::new(begun);
        let admitted = |limit: &mut RateLimit, now| (0..10_000).filter(|_| limit.take(now)).count();
        assert_eq!(admitted(&mut limit, begun), 300);
        assert_eq!(admitted(&mut limit, begun + Duration::from_secs(1)), 100);
        assert_eq!(admitted(&mut limit, begun + Duration::from_secs(3600)), 300);
    }
}
