//! Relay between a connection and the messages of a tunnel; both ends run it.
//!
//! ```text
//! incoming -> receive -> buffer of at most the window -> write -> connection, and credit for what it took
//! connection -> send -> outgoing, while there is credit
//! ```

use std::future::pending;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, SimplexStream, WriteHalf};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::last_activity::LastActivity;
use super::{CHUNK, HALF_CLOSED_TIMEOUT, MAX_CREDIT, MessageSink, TunnelError, TunnelMessage};
use hotdesk_wire::computer::tunnel::TunnelControl;

/// Time for the program to take what arrived before the peer was gone: what came is no whole, so a program that does not
/// read need not be waited for.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// State that the three parts of a relay share.
struct RelayState {
    /// Bytes that the peer accepts; a permit is a byte.
    credit: Semaphore,
    /// Bytes that the peer may still send.
    granted: AtomicUsize,
    activity: LastActivity,
    /// Cancelled when the first direction has ended.
    half_closed: CancellationToken,
    /// Whether the peer has sent its end.
    peer_ended: AtomicBool,
    /// Cancelled when the socket has ended.
    socket_ended: CancellationToken,
    /// Why it ended.
    socket_error: OnceLock<TunnelError>,
}

/// Relays until both directions have ended. `credit` is what the peer has granted already.
pub(super) async fn relay(
    local: impl AsyncRead + AsyncWrite + Send,
    incoming: impl Stream<Item = Result<TunnelMessage, TunnelError>> + Send,
    outgoing: &impl MessageSink,
    credit: usize,
    window: u32,
) -> Result<(), TunnelError> {
    relay_with(local, incoming, outgoing, credit, window, CancellationToken::new()).await
}

/// Does the same as [`relay`], and cancels `half_closed` when the first direction has ended.
pub(super) async fn relay_with(
    local: impl AsyncRead + AsyncWrite + Send,
    incoming: impl Stream<Item = Result<TunnelMessage, TunnelError>> + Send,
    outgoing: &impl MessageSink,
    credit: usize,
    window: u32,
    half_closed: CancellationToken,
) -> Result<(), TunnelError> {
    let (from_local, to_local) = tokio::io::split(local);
    let (arrived, arriving) = tokio::io::simplex(window as usize);
    let mut state = RelayState {
        credit: Semaphore::new(credit.min(MAX_CREDIT)),
        granted: AtomicUsize::new(window as usize),
        activity: LastActivity::default(),
        half_closed,
        peer_ended: AtomicBool::new(false),
        socket_ended: CancellationToken::new(),
        socket_error: OnceLock::new(),
    };
    outgoing.send(TunnelMessage::Control(TunnelControl::Credit { bytes: window })).await?;
    let ended = {
        let state = &state;
        let sending = async {
            tokio::select! {
                sent = send(from_local, outgoing, state) => sent,
                // Nobody takes more.
                () = state.socket_ended.cancelled() => Ok(()),
            }
        };
        let writing = write(arrived, to_local, outgoing, window, state);
        let idle = async {
            state.half_closed.cancelled().await;
            state.activity.wait_idle(HALF_CLOSED_TIMEOUT).await;
        };
        let abandoned = async {
            state.socket_ended.cancelled().await;
            if state.has_peer_ended() {
                // It ended in order: the rest is the program's, however slowly it reads.
                return pending().await;
            }
            tokio::time::sleep(LAST_WRITE_TIMEOUT).await;
        };
        tokio::select! {
            violation = receive(incoming, arriving, state) => Err(violation),
            ended = async { tokio::try_join!(sending, writing) } => ended.map(|((), whole)| whole),
            () = idle => Err(TunnelError::Idle),
            () = abandoned => Err(TunnelError::PeerGone),
        }
    };
    match ended {
        Ok(true) => Ok(()),
        Ok(false) => Err(state.socket_error.take().unwrap_or(TunnelError::PeerGone)),
        Err(error) => Err(error),
    }
}

/// Receives messages until the other parts have ended; returns only for a violation of the protocol.
async fn receive(
    incoming: impl Stream<Item = Result<TunnelMessage, TunnelError>>,
    mut arriving: WriteHalf<SimplexStream>,
    state: &RelayState,
) -> TunnelError {
    let mut incoming = pin!(incoming);
    while let Some(message) = incoming.next().await {
        match message {
            Ok(TunnelMessage::Data(_)) if state.has_peer_ended() => {
                return TunnelError::Violation("bytes after its end");
            }
            Ok(TunnelMessage::Data(bytes)) => {
                state.activity.touch();
                if !state.use_granted(bytes.len()) {
                    return TunnelError::Violation("more than its credit");
                }
                // The buffer has space for all that is granted.
                if arriving.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            Ok(TunnelMessage::Control(TunnelControl::Credit { bytes })) => {
                if !state.add_credit(bytes as usize) {
                    return TunnelError::Violation("too much credit");
                }
            }
            Ok(TunnelMessage::Control(TunnelControl::End)) => {
                state.peer_ended.store(true, Ordering::Relaxed);
                // A buffer in memory ends without fail.
                let _ended = arriving.shutdown().await;
                state.half_closed.cancel();
            }
            Err(violation @ TunnelError::Violation(_)) => return violation,
            Err(error) => {
                // Only the first counts, and nothing is read after it.
                let _first = state.socket_error.set(error);
                break;
            }
        }
    }
    state.socket_ended.cancel();
    let _ended = arriving.shutdown().await;
    // What arrived is still being written.
    pending().await
}

/// Writes what arrived, and returns credit for it. Returns whether the peer has ended its direction in order.
async fn write(
    mut arrived: ReadHalf<SimplexStream>,
    mut to_local: impl AsyncWrite + Unpin,
    outgoing: &impl MessageSink,
    window: u32,
    state: &RelayState,
) -> Result<bool, TunnelError> {
    let mut chunk = vec![0; CHUNK];
    let mut unreported = 0;
    loop {
        let length = arrived.read(&mut chunk).await.map_err(TunnelError::Program)?;
        if length == 0 {
            break;
        }
        to_local.write_all(&chunk[..length]).await.map_err(TunnelError::Program)?;
        to_local.flush().await.map_err(TunnelError::Program)?;
        unreported += u32::try_from(length).unwrap_or(u32::MAX);
        // Few messages, and credit comes back long before the peer runs out of it.
        if unreported >= window / 4 && !state.has_peer_ended() {
            state.granted.fetch_add(unreported as usize, Ordering::Relaxed);
            outgoing.send(TunnelMessage::Control(TunnelControl::Credit { bytes: unreported })).await?;
            unreported = 0;
        }
    }
    let whole = state.has_peer_ended();
    if whole {
        // A program that has closed its connection meanwhile needs no end.
        let _closed = to_local.shutdown().await;
    }
    Ok(whole)
}

/// Sends what the local program writes, to its end.
async fn send(
    mut from_local: impl AsyncRead + Unpin,
    outgoing: &impl MessageSink,
    state: &RelayState,
) -> Result<(), TunnelError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from_local.read(&mut chunk).await.map_err(TunnelError::Program)?;
        if length == 0 {
            break;
        }
        state.activity.touch();
        let mut bytes = Bytes::copy_from_slice(&chunk[..length]);
        while !bytes.is_empty() {
            let accepted = state.take_credit(bytes.len()).await;
            outgoing.send(TunnelMessage::Data(bytes.split_to(accepted))).await?;
        }
    }
    outgoing.send(TunnelMessage::Control(TunnelControl::End)).await?;
    state.half_closed.cancel();
    Ok(())
}

impl RelayState {
    fn has_peer_ended(&self) -> bool {
        self.peer_ended.load(Ordering::Relaxed)
    }

    /// Adds credit; `false` for a sum above [`MAX_CREDIT`].
    fn add_credit(&self, bytes: usize) -> bool {
        let fits = self.credit.available_permits() + bytes <= MAX_CREDIT;
        if fits {
            self.credit.add_permits(bytes);
        }
        fits
    }

    /// Counts bytes of the peer; `false` for more than was granted.
    fn use_granted(&self, bytes: usize) -> bool {
        let left = |granted: usize| granted.checked_sub(bytes);
        self.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Waits for credit and takes it for 1 to `wanted` bytes. Only one part takes some.
    async fn take_credit(&self, wanted: usize) -> usize {
        let Ok(first) = self.credit.acquire().await else {
            // The semaphore is never closed.
            return pending().await;
        };
        first.forget();
        let more = self.credit.available_permits().min(wanted - 1);
        let rest = u32::try_from(more).ok().and_then(|more| self.credit.try_acquire_many(more).ok());
        rest.map_or(1, |rest| {
            rest.forget();
            1 + more
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PeerGone;
    use super::*;
    use futures_util::stream;
    use std::time::Duration;
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    const SMALL_WINDOW: u32 = 1000;

    /// A socket's write half whose messages the test reads.
    struct SentMessages(UnboundedSender<TunnelMessage>);

    impl MessageSink for SentMessages {
        async fn send(&self, message: TunnelMessage) -> Result<(), PeerGone> {
            self.0.send(message).map_err(|_| PeerGone)
        }
    }

    fn incoming(
        sent: UnboundedReceiver<TunnelMessage>,
    ) -> impl Stream<Item = Result<TunnelMessage, TunnelError>> {
        stream::unfold(sent, |mut sent| async { Some((Ok(sent.recv().await?), sent)) })
    }

    /// Two relays that are connected, and the programs at both sides.
    fn connected() -> (DuplexStream, DuplexStream, impl Future<Output = [Result<(), TunnelError>; 2]>) {
        let ((near, near_local), (far, far_local)) = (duplex(64), duplex(64));
        let ((to_far, from_near), (to_near, from_far)) = (unbounded_channel(), unbounded_channel());
        let relays = async move {
            let (to_far, to_near) = (SentMessages(to_far), SentMessages(to_near));
            let near = relay(near_local, incoming(from_far), &to_far, 0, SMALL_WINDOW);
            let far = relay(far_local, incoming(from_near), &to_near, 0, SMALL_WINDOW);
            let (near, far) = tokio::join!(near, far);
            [near, far]
        };
        (near, far, relays)
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_and_a_half_close_leaves_the_other_direction() {
        let (mut near, mut far, relays) = connected();
        let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let asks = async {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = Vec::new();
            near.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let answers = async {
            let mut question = Vec::new();
            far.read_to_end(&mut question).await.unwrap();
            far.write_all(&question).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let (answer, (), ended) = tokio::join!(asks, answers, relays);
        assert_eq!(answer, sent);
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_holds_at_most_the_window() {
        let (mut near, mut far, relays) = connected();
        let fills = async {
            let mut accepted = 0;
            while let Ok(written) =
                tokio::time::timeout(Duration::from_millis(200), near.write(&[1; 100])).await
            {
                accepted += written.unwrap();
            }
            // The other direction still moves.
            far.write_all(b"still here").await.unwrap();
            let mut read = [0; 10];
            near.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"still here");
            accepted
        };
        tokio::select! {
            // The window, and the buffers of both programs and of one read.
            accepted = fills => assert!(accepted < SMALL_WINDOW as usize + CHUNK, "{accepted}"),
            ended = relays => panic!("{ended:?}"),
        }
    }

    #[tokio::test]
    async fn a_broken_socket_or_a_violation_is_no_end_in_order() {
        let credit = |bytes| Ok(TunnelMessage::Control(TunnelControl::Credit { bytes }));
        let data = || Ok(TunnelMessage::Data(Bytes::from_static(b"x")));
        let end = || Ok(TunnelMessage::Control(TunnelControl::End));
        let closed = || Err(TunnelError::Closed { code: 4500, reason: "gone".to_owned() });
        for (incoming, expected) in [
            (vec![credit(10), data()], "the connection to the other end broke"),
            (vec![credit(10), data(), closed()], "gone (4500)"),
            (vec![end(), data()], "the other end sent bytes after its end"),
            (vec![credit(1 << 30), credit(1)], "the other end sent too much credit"),
        ] {
            let (_program, local) = duplex(64);
            let (to_peer, _sent) = unbounded_channel();
            let messages = stream::iter(incoming);
            let ended = relay(local, messages, &SentMessages(to_peer), 0, SMALL_WINDOW).await;
            assert_eq!(ended.unwrap_err().to_string(), expected);
        }
    }
}
