//! Readers of a background process's output, from an offset, once or continuously.
//!
//! A slow reader delays nothing: when it falls behind the stored output, its stream ends with an error. An attached
//! process waits for its reader instead.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{self, Stream as Flow};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::log::StreamSelection;
use super::{BackgroundProcess, refused};
use crate::exec::output::streams::StdStream;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::process::OutputQuery;

/// Most bytes of one piece.
const PIECE: usize = 64 * 1024;
/// Bytes of the header of a framed piece.
const FRAME_HEADER: usize = 8;
/// Longest `wait_seconds`.
const MAX_WAIT_SECONDS: f64 = 300.0;

/// Output from an offset.
pub struct ProcessOutput<S> {
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes between the requested offset and [`Self::offset`] that are no longer stored.
    pub lost: u64,
    /// Number of bytes; absent when the output is followed.
    pub length: Option<u64>,
    /// The bytes. An error when the reader falls behind the stored output; the client then asks again with an
    /// offset.
    pub bytes: S,
}

/// State of a reader.
struct Reader {
    process: Arc<BackgroundProcess>,
    selection: StreamSelection,
    at: u64,
    /// Whether each piece has a header that names its stream.
    framed: bool,
    /// Offset and time at which to stop.
    end: Option<u64>,
    until: Option<Instant>,
    /// Present when the reader follows.
    news: Option<watch::Receiver<u64>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl BackgroundProcess {
    /// Reads the output.
    ///
    /// # Errors
    /// `Invalid` for bad parameters; `Unavailable` (`too_many_followers`) when too many readers wait already.
    pub async fn output(
        self: &Arc<Self>,
        query: &OutputQuery,
    ) -> Result<ProcessOutput<impl Flow<Item = io::Result<Bytes>> + use<>>> {
        let selection = match query.stream.as_deref() {
            None | Some("both") => StreamSelection::Both,
            Some("stdout") => StreamSelection::One(StdStream::Out),
            Some("stderr") => StreamSelection::One(StdStream::Err),
            Some(_) => return Err(refused("stream must be both, stdout or stderr")),
        };
        let framed = query.framed.unwrap_or(false);
        if selection != StreamSelection::Both && (framed || self.attached.is_some()) {
            return Err(refused("stream must be both for framed output and for an attached process"));
        }
        let wait = query.wait_seconds.map(wait).transpose()?;
        let follow = query.follow.unwrap_or(false);
        let requested = self.first(selection, query.offset.unwrap_or(0))?;
        let place = if follow || wait.is_some() { Some(self.follower_permit()?) } else { None };
        let until = wait.map(|wait| Instant::now() + wait);
        if let Some(until) = until.filter(|_| !follow) {
            self.wait_past(selection, requested, until).await;
        }
        let (start, end) = self.log().range(selection);
        let offset = requested.max(start);
        let reader = Reader {
            process: Arc::clone(self),
            selection,
            at: offset,
            framed,
            end: (!follow).then_some(end),
            until,
            news: follow.then(|| self.news.subscribe()),
            _place: place,
        };
        let bytes = stream::unfold(reader, |mut reader| async move {
            let piece = reader.next().await?;
            Some((piece, reader))
        });
        let length = (!follow && !framed).then(|| end - offset);
        Ok(ProcessOutput { offset, lost: offset - requested, length, bytes })
    }

    /// Converts a requested offset to an absolute one; a negative offset counts from the end.
    fn first(&self, selection: StreamSelection, offset: i64) -> Result<u64> {
        let (_, end) = self.log().range(selection);
        match u64::try_from(offset) {
            Err(_) => Ok(end.saturating_sub(offset.unsigned_abs())),
            Ok(offset) if offset <= end => Ok(offset),
            Ok(_) => Err(refused(&format!("offset is past the end, which is at {end}"))),
        }
    }

    fn follower_permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().map_err(|_| {
            Error::unavailable("too many readers are waiting for output already")
                .code(ErrorCode::TooManyFollowers)
                .retry_after(1)
        })
    }

    /// Waits until there is a byte at `offset`, or no byte can come any more.
    async fn wait_past(&self, selection: StreamSelection, offset: u64, until: Instant) {
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            {
                let log = self.log();
                if log.over || log.range(selection).1 > offset {
                    return;
                }
            }
            match tokio::time::timeout_at(until, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

impl Reader {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(news) = &mut self.news {
                news.mark_unchanged();
            }
            let over = {
                let log = self.process.log();
                let (start, end) = log.range(self.selection);
                if self.at < start {
                    drop(log);
                    return self.fall_behind();
                }
                let end = self.end.unwrap_or(end);
                if self.at < end {
                    let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(PIECE);
                    let (length, piece) = match log.read_one_stream(self.at, most).filter(|_| self.framed) {
                        Some((stream, piece)) => (piece.len(), frame(stream, &piece)),
                        None => {
                            let piece = log.read(self.selection, self.at, most);
                            (piece.len(), piece.into())
                        }
                    };
                    drop(log);
                    self.at += length as u64;
                    self.process.mark_read(self.at);
                    return Some(Ok(piece));
                }
                log.over
            };
            let news = self.news.as_mut().filter(|_| !over)?;
            let until = self.until;
            let changed = async {
                match until {
                    None => news.changed().await.is_ok(),
                    Some(until) => matches!(tokio::time::timeout_at(until, news.changed()).await, Ok(Ok(()))),
                }
            };
            if !changed.await {
                return None;
            }
        }
    }

    /// Ends a reader that was too slow; the error is returned once.
    fn fall_behind(&mut self) -> Option<io::Result<Bytes>> {
        (self.at, self.end, self.news) = (u64::MAX, Some(0), None);
        Some(Err(io::Error::other("the reader fell behind the stored output; ask again with an offset")))
    }
}

/// Returns a piece behind the header of its stream.
fn frame(stream: StdStream, piece: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEADER + piece.len());
    frame.put_slice(&[if stream == StdStream::Out { 1 } else { 2 }, 0, 0, 0]);
    // A piece has at most [`PIECE`] bytes.
    frame.put_u32(u32::try_from(piece.len()).unwrap_or(u32::MAX));
    frame.put_slice(piece);
    frame.freeze()
}

fn wait(seconds: f64) -> Result<Duration> {
    if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
        return Err(refused("wait_seconds must be 0 to 300"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| refused("wait_seconds must be a number"))
}
