//! Transfer of a request body to a blocking thread, through a bounded queue.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use hotdesk_http::extract::Body;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Longest time between two pieces of a body; a slower sender would block a transfer slot (T13,
/// docs/security.md).
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Most pieces that wait for the disk; then the connection is not read. A piece has at most some 400 KiB
/// (hyper's buffer).
const WAITING_PIECES: usize = 4;

/// A piece, or `None` for the end of the body.
type Message = Result<Option<Bytes>>;

/// A body for a blocking reader.
#[derive(Debug)]
pub struct BodyPieces {
    queue: mpsc::Receiver<Message>,
    ended: bool,
    current: Bytes,
}

impl BodyPieces {
    /// Returns the next piece; `None` at the end of the body. Blocks.
    ///
    /// # Errors
    /// `Invalid` when the body ended early; `SlowRequest` when it stalled; `Conflict` (`upload_taken_over`)
    /// when another request took over.
    pub fn piece(&mut self) -> Result<Option<Bytes>> {
        if !self.current.is_empty() {
            return Ok(Some(std::mem::take(&mut self.current)));
        }
        if self.ended {
            return Ok(None);
        }
        // The queue closes without an end when the sending task was dropped with its connection.
        let message = self.queue.blocking_recv().unwrap_or_else(|| Err(broke_off()));
        self.ended = !matches!(message, Ok(Some(_)));
        message
    }
}

/// For archive readers; an error of the body carries ours as its source.
impl Read for BodyPieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.piece().map_err(io::Error::other)? {
                None => return Ok(0),
                Some(piece) => self.current = piece,
            }
        }
        let length = into.len().min(self.current.len());
        into[..length].copy_from_slice(&self.current[..length]);
        self.current.advance(length);
        Ok(length)
    }
}

fn broke_off() -> Error {
    Error::invalid("the request body broke off")
}

/// Passes a body to `work`, which runs on a blocking thread, and returns its result. `stop` ends the body
/// early.
///
/// # Errors
/// Those of `work`.
pub async fn receive<T: Send + 'static>(
    body: Body,
    stop: CancellationToken,
    work: impl FnOnce(BodyPieces) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, queue) = mpsc::channel(WAITING_PIECES);
    let feeding = async move {
        let mut pieces = body.into_data_stream();
        loop {
            let message = tokio::select! {
                () = stop.cancelled() => Err(taken_over()),
                next = tokio::time::timeout(BODY_TIMEOUT, pieces.next()) => match next {
                    Err(_) => Err(Error::slow_request("the request body did not arrive in time")),
                    Ok(None) => Ok(None),
                    Ok(Some(Err(error))) => Err(broke_off().context(error)),
                    Ok(Some(Ok(piece))) if piece.is_empty() => continue,
                    Ok(Some(Ok(piece))) => Ok(Some(piece)),
                },
            };
            let last = !matches!(message, Ok(Some(_)));
            // The worker may have failed; its own error is the answer.
            if sender.send(message).await.is_err() || last {
                break;
            }
        }
    };
    let pieces = BodyPieces { queue, ended: false, current: Bytes::new() };
    let mut working = std::pin::pin!(blocking(move || work(pieces)));
    // A refusal is answered without waiting for the rest of the body.
    tokio::select! {
        biased;
        worked = working.as_mut() => worked,
        () = feeding => working.await,
    }
}

fn taken_over() -> Error {
    Error::conflict("another request continues this upload").code(ErrorCode::UploadTakenOver)
}
