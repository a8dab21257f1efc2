//! Timeline of a recording: one line of JSON per action, in order, written by a separate task.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::files::blocking;
use crate::media::timeline::{EntrySink, FinishedEntry, seconds};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::Error;
use hotdesk_wire::desktop::recording::TimelineEntry;

/// Most entries with pictures; an hour with an action every two seconds.
const MAX_PICTURED_ENTRIES: u64 = 2_000;
/// Size in bytes above which entries get no pictures.
const MAX_PICTURED_BYTES: u64 = 12 * 1024 * 1024;
/// Largest size in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most entries that wait to be written. Beyond it an entry is lost, because nothing waits for the disk.
const QUEUE: usize = 256;

/// Entry with its number in the recording.
type NumberedEntry = (u64, Arc<FinishedEntry>);

/// A timeline that is being written.
#[derive(Debug)]
pub struct Timeline {
    number: AtomicU64,
    queue: mpsc::Sender<NumberedEntry>,
    close: CancellationToken,
}

impl Timeline {
    /// Starts the timeline of a video that began at `began`; the returned task ends when everything is
    /// written.
    pub fn start(file: File, began: Instant, tasks: &Tasks) -> (Arc<Self>, JoinHandle<Option<()>>) {
        let (queue, entries) = mpsc::channel(QUEUE);
        let close = CancellationToken::new();
        let timeline = Arc::new(Self { number: AtomicU64::new(0), queue, close: close.clone() });
        let writer = Writer { file: Arc::new(file), began, written: WrittenSize::default() };
        let writing = tasks.spawn("timeline of a recording", writer.write(entries, close));
        (timeline, writing)
    }

    /// Ends the timeline after the queued entries.
    pub fn close(&self) {
        self.close.cancel();
    }
}

impl EntrySink for Timeline {
    fn add(&self, entry: &Arc<FinishedEntry>) {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        if self.queue.try_send((number, Arc::clone(entry))).is_err() {
            tracing::debug!("the queue of a recording's timeline is full or closed; an entry is lost");
        }
    }
}

struct Writer {
    file: Arc<File>,
    began: Instant,
    written: WrittenSize,
}

/// Size of the written entries.
#[derive(Debug, Default)]
struct WrittenSize {
    bytes: u64,
    pictured: u64,
}

impl WrittenSize {
    /// Counts a line if it fits.
    fn take(&mut self, bytes: u64, pictured: bool) -> bool {
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            return false;
        }
        self.bytes += bytes;
        self.pictured += u64::from(pictured);
        true
    }

    /// Whether more pictures fit.
    fn fits_pictures(&self) -> bool {
        self.bytes < MAX_PICTURED_BYTES && self.pictured < MAX_PICTURED_ENTRIES
    }
}

impl Writer {
    async fn write(mut self, mut entries: mpsc::Receiver<NumberedEntry>, close: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                entry = entries.recv() => match entry {
                    Some((number, entry)) => self.line(number, &entry).await,
                    None => return,
                },
                () = close.cancelled() => return,
            }
        }
    }

    async fn line(&mut self, number: u64, finished: &FinishedEntry) {
        let fits = self.written.fits_pictures();
        let encode = |picture: &bytes::Bytes| STANDARD.encode(picture);
        let entry = TimelineEntry {
            number,
            at: seconds(finished.began.saturating_duration_since(self.began)),
            record: finished.record.clone(),
            before: finished.before.as_ref().filter(|_| fits).map(encode),
            after: finished.after.as_ref().filter(|_| fits).map(encode),
        };
        let mut line = match serde_json::to_vec(&entry) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "cannot encode an entry of a timeline"),
        };
        line.push(b'\n');
        if !self.written.take(line.len() as u64, entry.before.is_some()) {
            return;
        }
        let file = Arc::clone(&self.file);
        let written = blocking(move || {
            (&*file).write_all(&line).map_err(|error| Error::unavailable("a timeline").context(error))
        });
        if let Err(error) = written.await {
            tracing::warn!(error = format_args!("{error:#}"), "cannot write an entry of a timeline");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_timeline_first_drops_pictures_and_then_entries() {
        let mut many = WrittenSize::default();
        assert!((0..MAX_PICTURED_ENTRIES).all(|_| many.fits_pictures() && many.take(100, true)));
        assert!(!many.fits_pictures() && many.take(100, false));
        let mut large = WrittenSize::default();
        assert!(large.take(MAX_PICTURED_BYTES, true) && !large.fits_pictures());
        assert!(large.take(MAX_BYTES - MAX_PICTURED_BYTES, false));
        assert!(!large.take(1, false) && large.bytes == MAX_BYTES);
    }
}
