//! How is a process's output read? From an offset, once or as it comes; a slow reader holds nothing up and nothing back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream as Flow};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::super::streams::Stream;
use super::log::Which;
use super::{Process, refused};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::process::OutputQuery;

/// Bytes of one piece.
const PIECE: usize = 64 * 1024;
/// The most seconds that a reader may ask to wait.
const MAX_WAIT_SECONDS: f64 = 300.0;

/// Output from an offset on.
pub struct Output<S> {
    /// The offset of the first byte.
    pub offset: u64,
    /// Bytes that were asked for and are no longer kept.
    pub lost: u64,
    /// How many there are, unless they are followed.
    pub length: Option<u64>,
    /// The bytes. A reader that falls behind what is kept gets an error: its next question names an offset again.
    pub bytes: S,
}

/// A reader on its way.
struct Reader {
    process: Arc<Process>,
    which: Which,
    at: u64,
    /// Where to stop, and when.
    end: Option<u64>,
    until: Option<Instant>,
    /// Present while the reader follows.
    news: Option<watch::Receiver<u64>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Process {
    /// Reads the output.
    ///
    /// # Errors
    /// `Invalid` for a question that makes no sense; `Unavailable` when too many follow already.
    pub async fn output(
        self: &Arc<Self>,
        query: &OutputQuery,
    ) -> Result<Output<impl Flow<Item = io::Result<Bytes>> + use<>>> {
        let which = match query.stream.as_deref() {
            None | Some("both") => Which::Both,
            Some("stdout") => Which::One(Stream::Out),
            Some("stderr") => Which::One(Stream::Err),
            Some(_) => return Err(refused("stream must be both, stdout or stderr")),
        };
        let wait = query.wait_seconds.map(wait).transpose()?;
        let follow = query.follow.unwrap_or(false);
        let asked = self.first(which, query.offset.unwrap_or(0))?;
        let place = if follow || wait.is_some() { Some(self.place()?) } else { None };
        let until = wait.map(|wait| Instant::now() + wait);
        if let Some(until) = until.filter(|_| !follow) {
            self.wait_past(which, asked, until).await;
        }
        let (start, end) = self.log().range(which);
        let offset = asked.max(start);
        let reader = Reader {
            process: Arc::clone(self),
            which,
            at: offset,
            end: (!follow).then_some(end),
            until,
            news: follow.then(|| self.news.subscribe()),
            _place: place,
        };
        let bytes = stream::unfold(reader, |mut reader| async move {
            let piece = reader.next().await?;
            Some((piece, reader))
        });
        Ok(Output { offset, lost: offset - asked, length: (!follow).then(|| end - offset), bytes })
    }

    /// The absolute offset that is meant.
    fn first(&self, which: Which, offset: i64) -> Result<u64> {
        let (_, end) = self.log().range(which);
        match u64::try_from(offset) {
            Err(_) => Ok(end.saturating_sub(offset.unsigned_abs())),
            Ok(offset) if offset <= end => Ok(offset),
            Ok(_) => Err(refused(&format!("offset is past the end, which is at {end}"))),
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().map_err(|_| {
            Error::unavailable("too many readers are waiting for output already")
                .code("too_many_followers")
                .retry_after(1)
        })
    }

    /// Waits until a byte past an offset is there, or none can come any more.
    async fn wait_past(&self, which: Which, offset: u64, until: Instant) {
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            {
                let log = self.log();
                if log.over || log.range(which).1 > offset {
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
                let (start, end) = log.range(self.which);
                if self.at < start {
                    drop(log);
                    return self.behind();
                }
                let end = self.end.unwrap_or(end);
                if self.at < end {
                    let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(PIECE);
                    let piece = log.read(self.which, self.at, most);
                    self.at += piece.len() as u64;
                    return Some(Ok(piece.into()));
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

    /// The end of a reader that was too slow: said once.
    fn behind(&mut self) -> Option<io::Result<Bytes>> {
        (self.at, self.end, self.news) = (u64::MAX, Some(0), None);
        Some(Err(io::Error::other("the reader fell behind what is kept of the output")))
    }
}

fn wait(seconds: f64) -> Result<Duration> {
    if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
        return Err(refused("wait_seconds must be 0 to 300"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| refused("wait_seconds must be a number"))
}
