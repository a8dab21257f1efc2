//! End of connections whose client does not read the response (T13, docs/security.md).
//!
//! A response that nobody reads keeps its memory, its permits and a connection to the computer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Longest time for which a client may take no byte of a response: far above what a congested network causes, and short
/// enough that abandoned downloads do not add up.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Response extension: the client may pause for as long as it likes, as a person does who reads a command's output in a
/// pager. The body itself must be bounded.
#[derive(Clone, Copy, Debug)]
pub struct ClientMayPause;

/// Whether the client of a connection may pause now; shared by the connection's I/O and its service.
#[derive(Clone, Debug, Default)]
pub(super) struct PausePermission(Arc<AtomicBool>);

impl PausePermission {
    /// Notes what holds for the response that is sent next. Protocols after an upgrade have limits of their own.
    pub(super) fn note(&self, response: &Response) {
        let may_pause = response.status() == StatusCode::SWITCHING_PROTOCOLS
            || response.extensions().get::<ClientMayPause>().is_some();
        self.0.store(may_pause, Ordering::Relaxed);
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
        if written.is_ready() || self.permission.0.load(Ordering::Relaxed) {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeout;
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
    async fn a_client_that_reads_nothing_is_given_up_unless_it_may_pause() {
        let (_client, server) = duplex(10);
        let mut connection = ClientConnection::new(server, TIMEOUT, PausePermission::default());
        let failed = connection.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);

        let permission = PausePermission::default();
        let mut response = Response::default();
        response.extensions_mut().insert(ClientMayPause);
        permission.note(&response);
        let (mut client, server) = duplex(10);
        let mut connection = ClientConnection::new(server, TIMEOUT, permission.clone());
        let read_late = async {
            sleep(3 * TIMEOUT).await;
            client.read_exact(&mut [0; 11]).await.map(drop)
        };
        let (written, read) = tokio::join!(connection.write_all(&[0; 11]), read_late);
        written.and(read).unwrap();

        // The next response has no such permission.
        permission.note(&Response::default());
        assert!(connection.write_all(&[0; 11]).await.is_err());
    }
}
