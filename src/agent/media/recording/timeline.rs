//! Timeline of a recording: one line of JSON per action, in order, written by a separate task.
//!
//! The picture before an action is taken when the action begins. The picture after it is taken a moment
//! later, or is the first picture of the next action.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::timeline_entry;
use crate::display::{Screen, ScreenshotOptions};
use crate::files::blocking;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::recording::TimelineEntry;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Largest width and height of the small pictures in pixels.
const PICTURE: [f64; 2] = [160.0, 90.0];
/// JPEG quality of the small pictures; windows and menus are recognizable.
const QUALITY: u8 = 60;
/// Most entries with pictures; an hour with an action every two seconds.
const MAX_PICTURED_ENTRIES: u64 = 2_000;
/// Size in bytes above which entries get no pictures.
const MAX_PICTURED_BYTES: u64 = 12 * 1024 * 1024;
/// Largest size in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most entries that wait to be written. Beyond it an entry is lost, because an action must not wait.
const QUEUE: usize = 256;
/// Delay of the picture after an action, which a program needs to react.
const REACTION: Duration = Duration::from_millis(150);
/// How long a picture may take. 3 ms are usual, a second beside an encoder on a busy machine; an action waits
/// for its first picture.
const PICTURE_TIMEOUT: Duration = Duration::from_secs(2);

/// A timeline that is being written.
#[derive(Debug)]
pub struct Timeline {
    screen: Arc<Screen>,
    began: Instant,
    number: AtomicU64,
    /// Whether new entries get pictures.
    pictured: AtomicBool,
    queue: mpsc::Sender<QueueItem>,
    close: CancellationToken,
}

/// Entry of an action that is being executed.
#[derive(Debug)]
pub struct PendingTimelineEntry {
    entry: TimelineEntry,
    at: Instant,
    pictured: bool,
}

#[derive(Debug)]
enum QueueItem {
    /// An action begins; this is also the picture after the previous one.
    Begins(String),
    Done(Box<TimelineEntry>, bool),
}

impl Timeline {
    /// Starts the timeline of a video that began at `began`; the returned task ends when everything is
    /// written.
    pub fn start(
        file: File,
        screen: Arc<Screen>,
        began: std::time::Instant,
        tasks: &Tasks,
    ) -> (Arc<Self>, JoinHandle<Option<()>>) {
        let (queue, items) = mpsc::channel(QUEUE);
        let timeline = Arc::new(Self {
            screen,
            began: began.into(),
            number: AtomicU64::new(0),
            pictured: AtomicBool::new(true),
            queue,
            close: CancellationToken::new(),
        });
        let writer =
            Writer { timeline: Arc::clone(&timeline), file: Arc::new(file), written: WrittenSize::default() };
        let writing = tasks.spawn("timeline", writer.write(items));
        (timeline, writing)
    }

    /// Ends the timeline after the queued entries.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// Begins the entry of an action.
    pub async fn begin(&self, action: &Action) -> PendingTimelineEntry {
        let mut entry = timeline_entry::of_action(action);
        self.screen.id.clone_into(&mut entry.screen);
        let pictured = action.options().is_some() && self.pictured.load(Ordering::Relaxed);
        if pictured && let Some(picture) = self.picture().await {
            // A full queue loses the picture, because the action must not wait.
            let _ = self.queue.try_send(QueueItem::Begins(picture.clone()));
            entry.before = Some(picture);
        }
        PendingTimelineEntry { entry, at: Instant::now(), pictured }
    }

    /// Completes the entry of an action that was executed or refused.
    pub fn end(&self, begun: PendingTimelineEntry, outcome: &Result<ActionResult>) {
        let PendingTimelineEntry { mut entry, at, pictured } = begun;
        timeline_entry::add_outcome(&mut entry, outcome);
        entry.number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        entry.at = seconds(at.saturating_duration_since(self.began));
        entry.took = seconds(at.elapsed());
        if self.queue.try_send(QueueItem::Done(Box::new(entry), pictured)).is_err() {
            tracing::debug!(screen = self.screen.id, "the queue of a timeline is full; an entry is lost");
        }
    }

    /// A small picture of the screen; `None` on a failure or timeout.
    async fn picture(&self) -> Option<String> {
        let size = self.screen.size();
        let [width, height] = PICTURE;
        let scale = (width / f64::from(size.width)).min(height / f64::from(size.height)).min(1.0);
        let query = ScreenshotQuery {
            format: Some(String::from("jpeg")),
            quality: Some(QUALITY),
            scale: Some(scale),
            ..ScreenshotQuery::default()
        };
        let taken = async { self.screen.screenshot(ScreenshotOptions::parse(&query)?).await };
        match tokio::time::timeout(PICTURE_TIMEOUT, taken).await {
            Ok(Ok(picture)) => Some(STANDARD.encode(&picture.bytes)),
            Ok(Err(error)) => {
                tracing::debug!(
                    screen = self.screen.id,
                    error = format_args!("{error:#}"),
                    "no picture for a timeline"
                );
                None
            }
            Err(_) => None,
        }
    }
}

struct Writer {
    timeline: Arc<Timeline>,
    file: Arc<File>,
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
    async fn write(mut self, mut items: mpsc::Receiver<QueueItem>) {
        let mut waiting: Option<(Box<TimelineEntry>, Instant)> = None;
        let close = self.timeline.close.clone();
        loop {
            let due = waiting.as_ref().map(|(_, due)| *due);
            let item = tokio::select! {
                biased;
                item = items.recv() => item,
                () = sleep_until(due) => {
                    if let Some((mut entry, _)) = waiting.take() {
                        entry.after = self.timeline.picture().await;
                        self.line(*entry).await;
                    }
                    continue;
                }
                () = close.cancelled() => None,
            };
            let before = waiting.take();
            match item {
                Some(QueueItem::Begins(picture)) => {
                    if let Some((mut entry, _)) = before {
                        entry.after = Some(picture);
                        self.line(*entry).await;
                    }
                }
                Some(QueueItem::Done(entry, pictured)) => {
                    if let Some((entry, _)) = before {
                        self.line(*entry).await;
                    }
                    if pictured {
                        waiting = Some((entry, Instant::now() + REACTION));
                    } else {
                        self.line(*entry).await;
                    }
                }
                None => {
                    // Later entries belong to the time after the recording.
                    if let Some((mut entry, _)) = before {
                        entry.after = self.timeline.picture().await;
                        self.line(*entry).await;
                    }
                    return;
                }
            }
        }
    }

    async fn line(&mut self, entry: TimelineEntry) {
        let mut line = match serde_json::to_vec(&entry) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "cannot encode an entry of a timeline"),
        };
        line.push(b'\n');
        if !self.written.take(line.len() as u64, entry.before.is_some()) {
            return;
        }
        self.timeline.pictured.store(self.written.fits_pictures(), Ordering::Relaxed);
        let file = Arc::clone(&self.file);
        let written = blocking(move || {
            (&*file).write_all(&line).map_err(|error| Error::unavailable("a timeline").context(error))
        });
        if let Err(error) = written.await {
            tracing::warn!(error = format_args!("{error:#}"), "cannot write an entry of a timeline");
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Seconds, rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
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
