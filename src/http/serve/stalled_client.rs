//! End of connections whose client does not read the response (T13, docs/security.md).
//!
//! A response that nobody reads keeps its memory, its permits and a connection to the computer.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Longest time for which a client may take no byte of a response: far above what a congested network causes, and short
/// enough that abandoned downloads do not add up.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time for which a client that may pause takes no byte: a person's break from a command's output in a pager.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Response extension: the client may pause for an hour, as a person does who reads a command's output in a pager. The body
/// itself must be bounded.
#[derive(Clone, Debug)]
pub struct ClientMayPause {
    timeout: Duration,
    /// Held until the connection has sent the response and begins another one.
    _permit: Option<Arc<dyn Any + Send + Sync>>,
}

impl ClientMayPause {
    /// The permission of a client that is trusted not to pause on many connections.
    pub fn unlimited() -> Self {
        Self { timeout: PAUSE_TIMEOUT, _permit: None }
    }

    /// The permission that holds a permit for as long as the client may pause.
    pub fn holding(permit: impl Any + Send + Sync) -> Self {
        Self { timeout: PAUSE_TIMEOUT, _permit: Some(Arc::new(permit)) }
    }
}

/// What the client of a connection may do now.
#[derive(Debug, Default)]
enum Allowance {
    #[default]
    Read,
    Pause(ClientMayPause),
    /// Protocols after an upgrade have limits of their own.
    Upgraded,
}

/// How long the client of a connection may pause now; shared by the connection's I/O and its service.
#[derive(Clone, Debug, Default)]
pub(super) struct PausePermission(Arc<Mutex<Allowance>>);

impl PausePermission {
    /// Notes what holds for the response that is sent next.
    pub(super) fn note(&self, response: &Response) {
        let allowance = match response.extensions().get::<ClientMayPause>() {
            _ if response.status() == StatusCode::SWITCHING_PROTOCOLS => Allowance::Upgraded,
            Some(may_pause) => Allowance::Pause(may_pause.clone()),
            None => Allowance::Read,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = allowance;
    }

    /// The longest pause, or `None` for any; `stall` for a client that should read.
    fn timeout(&self, stall: Duration) -> Option<Duration> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Allowance::Read => Some(stall),
            Allowance::Pause(may_pause) => Some(may_pause.timeout),
            Allowance::Upgraded => None,
        }
    }
}

/// A connection whose writes fail once the client has taken nothing for a timeout.
pub(super) struct ClientConnection<T> {
    inner: T,
    timeout: Duration,
    permission: PausePermission,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> ClientConnection<T> {
    pub(super) fn new(inner: T, timeout: Duration, permission: PausePermission) -> Self {
        Self { inner, timeout, permission, stalled: None }
    }

    /// Passes the result of a write on, or fails when it has waited too long.
    fn watch<R>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        let timeout = if written.is_ready() { None } else { self.permission.timeout(self.timeout) };
        let Some(timeout) = timeout else {
            self.stalled = None;
            return written;
        };
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read the response")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ClientConnection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ClientConnection<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_given_up_at_once_or_after_its_pause() {
        let (_client, server) = duplex(10);
        let mut connection = ClientConnection::new(server, TIMEOUT, PausePermission::default());
        let failed = connection.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);

        let permission = PausePermission::default();
        let mut response = Response::default();
        let permit = Arc::new(());
        let may_pause =
            ClientMayPause { timeout: 6 * TIMEOUT, ..ClientMayPause::holding(Arc::clone(&permit)) };
        response.extensions_mut().insert(may_pause);
        permission.note(&response);
        let (mut client, server) = duplex(10);
        let mut connection = ClientConnection::new(server, TIMEOUT, permission.clone());
        let read_late = async {
            sleep(3 * TIMEOUT).await;
            client.read_exact(&mut [0; 11]).await.map(drop)
        };
        let (written, read) = tokio::join!(connection.write_all(&[0; 11]), read_late);
        written.and(read).unwrap();
        // The pause ends too.
        let failed = connection.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);

        // The next response has no such permission, and its permit is free.
        drop(response);
        assert_eq!(Arc::strong_count(&permit), 2);
        permission.note(&Response::default());
        assert_eq!(Arc::strong_count(&permit), 1);
        assert!(connection.write_all(&[0; 11]).await.is_err());
    }
}
