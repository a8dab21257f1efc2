//! How does a request's body reach a file? Piece by piece through a short queue, to a thread that may block.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::blocking;
use hotdesk_domain::error::{Error, Result};

/// Longest time between two pieces of the body; a slower sender holds a file for nothing (threats.md T13).
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pieces that wait for the disk; past it the sender is not read from. A piece is at most some 400 KiB (hyper's buffer).
const WAITING_PIECES: usize = 4;

/// What comes after the last piece.
type Message = Result<Option<Bytes>>;

/// A body as the working thread sees it.
#[derive(Debug)]
pub struct Pieces {
    queue: mpsc::Receiver<Message>,
    ended: bool,
    current: Bytes,
}

impl Pieces {
    /// The next piece; `None` at the body's own end.
    ///
    /// # Errors
    /// `Invalid` when the body broke off or stalled; `Conflict` when another request took over.
    pub fn piece(&mut self) -> Result<Option<Bytes>> {
        if !self.current.is_empty() {
            return Ok(Some(std::mem::take(&mut self.current)));
        }
        if self.ended {
            return Ok(None);
        }
        // A queue that closes without an end: whoever fed it is gone, and the client with it.
        let message = self.queue.blocking_recv().unwrap_or_else(|| Err(broke_off()));
        self.ended = !matches!(message, Ok(Some(_)));
        message
    }
}

/// For readers of formats; a broken body is an error that carries ours.
impl Read for Pieces {
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

/// Feeds a body to `work`, which runs where it may block, and returns what that returns. `stop` ends the body early.
///
/// # Errors
/// Those of `work`.
pub async fn receive<T: Send + 'static>(
    body: Body,
    stop: CancellationToken,
    work: impl FnOnce(Pieces) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, queue) = mpsc::channel(WAITING_PIECES);
    let feeding = async move {
        let mut pieces = body.into_data_stream();
        loop {
            let message = tokio::select! {
                () = stop.cancelled() => Err(taken_over()),
                next = tokio::time::timeout(BODY_TIMEOUT, pieces.next()) => match next {
                    Err(_) => Err(Error::invalid("the request body did not arrive in time")),
                    Ok(None) => Ok(None),
                    Ok(Some(Err(error))) => Err(broke_off().context(error)),
                    Ok(Some(Ok(piece))) if piece.is_empty() => continue,
                    Ok(Some(Ok(piece))) => Ok(Some(piece)),
                },
            };
            let last = !matches!(message, Ok(Some(_)));
            // The worker may have failed and gone; its own error is the answer.
            if sender.send(message).await.is_err() || last {
                break;
            }
        }
    };
    let pieces = Pieces { queue, ended: false, current: Bytes::new() };
    let mut working = std::pin::pin!(blocking(move || work(pieces)));
    // A refusal does not wait for a body that it needs no more.
    tokio::select! {
        biased;
        worked = working.as_mut() => worked,
        () = feeding => working.await,
    }
}

fn taken_over() -> Error {
    Error::conflict("another request continues this upload").code("upload_taken_over")
}
