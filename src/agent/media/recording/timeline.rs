//! What was done while a screen was recorded? A line of JSON per action, in their order, written beside the actions.
//!
//! An action's picture before it is taken in its turn; the one after it a moment later, or it is the next action's first.

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

use super::words;
use crate::display::{Form, Screen};
use crate::files::blocking;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::batch::Action;
use hotdesk_wire::effect::ActionResult;
use hotdesk_wire::recording::TimelineEntry;
use hotdesk_wire::screenshot::ScreenshotQuery;

/// Sides of the small pictures.
const PICTURE: [f64; 2] = [160.0, 90.0];
/// Their JPEG quality; windows and menus can be told apart.
const QUALITY: u8 = 60;
/// Entries with pictures; an hour of an action every two seconds.
const MOST_PICTURED: u64 = 2_000;
/// Bytes of a timeline after which entries have no pictures any more.
const PICTURED_BYTES: u64 = 12 * 1024 * 1024;
/// Bytes after which nothing is written.
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// Entries that wait to be written; past it an action's entry is lost rather than the action late.
const QUEUE: usize = 256;
/// What a program needs to react: the picture after an action is taken so much later.
const REACTION: Duration = Duration::from_millis(150);
/// How long a picture may take: 3 ms are usual, beside an encoder on a busy machine a second, and an action waits for its first one.
const PICTURE_TIMEOUT: Duration = Duration::from_secs(2);

/// A timeline that is being written.
#[derive(Debug)]
pub struct Timeline {
    screen: Arc<Screen>,
    began: Instant,
    number: AtomicU64,
    /// Whether entries still get pictures.
    pictured: AtomicBool,
    queue: mpsc::Sender<Note>,
    close: CancellationToken,
}

/// An action that is being done.
#[derive(Debug)]
pub struct Begun {
    entry: TimelineEntry,
    at: Instant,
    pictured: bool,
}

#[derive(Debug)]
enum Note {
    /// An action begins; this is the screen as the one before left it.
    Begins(String),
    Done(Box<TimelineEntry>, bool),
}

impl Timeline {
    /// Begins the timeline of a video that began at `began`; what is returned beside it ends when all of it is written.
    pub fn start(
        file: File,
        screen: Arc<Screen>,
        began: std::time::Instant,
        tasks: &Tasks,
    ) -> (Arc<Self>, JoinHandle<Option<()>>) {
        let (queue, notes) = mpsc::channel(QUEUE);
        let timeline = Arc::new(Self {
            screen,
            began: began.into(),
            number: AtomicU64::new(0),
            pictured: AtomicBool::new(true),
            queue,
            close: CancellationToken::new(),
        });
        let writer = Writer { timeline: Arc::clone(&timeline), file: Arc::new(file), room: Room::default() };
        let writing = tasks.spawn("timeline", writer.write(notes));
        (timeline, writing)
    }

    /// Writes what there is and ends.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// An action is about to be done.
    pub async fn begin(&self, action: &Action) -> Begun {
        let mut entry = words::asked(action);
        self.screen.id.clone_into(&mut entry.screen);
        let pictured = words::acts(action) && self.pictured.load(Ordering::Relaxed);
        if pictured && let Some(picture) = self.picture().await {
            // A full queue loses the picture, never holds the action up.
            let _ = self.queue.try_send(Note::Begins(picture.clone()));
            entry.before = Some(picture);
        }
        Begun { entry, at: Instant::now(), pictured }
    }

    /// It was done, or refused.
    pub fn end(&self, begun: Begun, outcome: &Result<ActionResult>) {
        let Begun { mut entry, at, pictured } = begun;
        words::done(&mut entry, outcome);
        entry.number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        entry.at = seconds(at.saturating_duration_since(self.began));
        entry.took = seconds(at.elapsed());
        if self.queue.try_send(Note::Done(Box::new(entry), pictured)).is_err() {
            tracing::debug!(screen = self.screen.id, "an entry of a timeline was lost");
        }
    }

    /// The screen now, small.
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
        let taken = async { self.screen.screenshot(Form::parse(&query)?).await };
        match tokio::time::timeout(PICTURE_TIMEOUT, taken).await {
            Ok(Ok(picture)) => Some(STANDARD.encode(&picture.bytes)),
            Ok(Err(error)) => {
                tracing::debug!(screen = self.screen.id, %error, "no picture for a timeline");
                None
            }
            Err(_) => None,
        }
    }
}

struct Writer {
    timeline: Arc<Timeline>,
    file: Arc<File>,
    room: Room,
}

/// What was written so far.
#[derive(Debug, Default)]
struct Room {
    bytes: u64,
    pictured: u64,
}

impl Room {
    /// Takes a line, if there is room for it.
    fn take(&mut self, bytes: u64, pictured: bool) -> bool {
        if self.bytes.saturating_add(bytes) > MOST_BYTES {
            return false;
        }
        self.bytes += bytes;
        self.pictured += u64::from(pictured);
        true
    }

    /// Whether there is room for more pictures.
    fn for_pictures(&self) -> bool {
        self.bytes < PICTURED_BYTES && self.pictured < MOST_PICTURED
    }
}

impl Writer {
    async fn write(mut self, mut notes: mpsc::Receiver<Note>) {
        let mut waiting: Option<(Box<TimelineEntry>, Instant)> = None;
        let close = self.timeline.close.clone();
        loop {
            let due = waiting.as_ref().map(|(_, due)| *due);
            let note = tokio::select! {
                biased;
                note = notes.recv() => note,
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
            match note {
                Some(Note::Begins(picture)) => {
                    if let Some((mut entry, _)) = before {
                        entry.after = Some(picture);
                        self.line(*entry).await;
                    }
                }
                Some(Note::Done(entry, pictured)) => {
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
                    // What comes later is of after the recording.
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
            Err(error) => return tracing::error!(%error, "an entry of a timeline cannot be written"),
        };
        line.push(b'\n');
        if !self.room.take(line.len() as u64, entry.before.is_some()) {
            return;
        }
        self.timeline.pictured.store(self.room.for_pictures(), Ordering::Relaxed);
        let file = Arc::clone(&self.file);
        let written = blocking(move || {
            (&*file).write_all(&line).map_err(|error| Error::unavailable("a timeline").context(error))
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "an entry of a timeline was not written");
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Seconds with milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_first_loses_its_pictures_and_then_ends() {
        let mut many = Room::default();
        assert!((0..MOST_PICTURED).all(|_| many.for_pictures() && many.take(100, true)));
        assert!(!many.for_pictures() && many.take(100, false));
        let mut large = Room::default();
        assert!(large.take(PICTURED_BYTES, true) && !large.for_pictures());
        assert!(large.take(MOST_BYTES - PICTURED_BYTES, false));
        assert!(!large.take(1, false) && large.bytes == MOST_BYTES);
    }
}
