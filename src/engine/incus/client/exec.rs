//! Standard input and output of a program in an instance, over the web sockets of Incus.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Socket;

/// Most bytes of one message to the program: a frame of HTTP/2 with its head (`link/bridge.rs`).
const CHUNK: usize = 64 * 1024;
/// Characters of what the program writes to standard error that a log line has.
const LOGGED: usize = 200;

/// The stream of a program: what it writes is read, what is written is its input. Its drop closes the input.
pub(in crate::incus) struct ExecStream {
    input: Socket,
    output: Socket,
    /// Standard error, and the control socket, which the server holds open.
    others: [Socket; 2],
    /// Received and not read yet.
    received: Bytes,
    is_ended: bool,
}

impl ExecStream {
    pub(super) fn new(input: Socket, output: Socket, others: [Socket; 2]) -> Self {
        Self { input, output, others, received: Bytes::new(), is_ended: false }
    }

    /// Reads what the other sockets have: pings, which the reader answers, and standard error.
    fn drain_others(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(Ok(_))) = self.input.poll_next_unpin(cx) {}
        for other in &mut self.others {
            while let Poll::Ready(Some(Ok(message))) = other.poll_next_unpin(cx) {
                if let Message::Binary(text) = message {
                    let text: String = String::from_utf8_lossy(&text).chars().take(LOGGED).collect();
                    tracing::debug!(text = text.trim_end(), "a program in an instance reports");
                }
            }
        }
    }
}

impl fmt::Debug for ExecStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecStream").field("is_ended", &self.is_ended).finish_non_exhaustive()
    }
}

impl AsyncRead for ExecStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.drain_others(cx);
        loop {
            if !this.received.is_empty() {
                let length = this.received.len().min(buf.remaining());
                buf.put_slice(&this.received[..length]);
                this.received.advance(length);
                return Poll::Ready(Ok(()));
            }
            if this.is_ended {
                return Poll::Ready(Ok(()));
            }
            match ready!(this.output.poll_next_unpin(cx)) {
                Some(Ok(Message::Binary(data))) => this.received = data,
                // The server ends the stream by an empty text.
                Some(Ok(Message::Text(_) | Message::Close(_))) | None => this.is_ended = true,
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => {
                    this.is_ended = true;
                    return Poll::Ready(Err(broken(error)));
                }
            }
        }
    }
}

impl AsyncWrite for ExecStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    /// Sends all slices as one message: the server handles each message with system calls of its own.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.input.poll_ready_unpin(cx)).map_err(broken)?;
        let length = slices.iter().map(|slice| slice.len()).sum::<usize>().min(CHUNK);
        let mut data = Vec::with_capacity(length);
        for slice in slices {
            let left = length - data.len();
            data.extend_from_slice(&slice[..slice.len().min(left)]);
        }
        this.input.start_send_unpin(Message::Binary(Bytes::from(data))).map_err(broken)?;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().input.poll_flush_unpin(cx).map_err(broken)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().input.poll_close_unpin(cx).map_err(broken)
    }
}

fn broken(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}
