//! Timelines of the screens: the newest actions, who did them, and small pictures from before and after.
//!
//! ```text
//! begin -> (the action) -> end -> queue of the screen -> its task: pictures -> memory  -> GET /timeline
//!                                                                           -> recording of the screen
//! ```
//! An action waits for none of it. The picture before it is the newest one, if that is younger than
//! [`FRESH`]. Otherwise the capture of a new one is queued before the action and encoded beside it. The
//! picture after it is taken when programs have reacted, or is the picture before the next action. Actions
//! that follow each other closely share pictures. Input of viewers comes here as actions, too
//! (`media::vnc::action_log`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::{mpsc, oneshot, watch};

pub mod record;
mod ring;
mod screen_task;

use crate::display::{Picture, Screen, ScreenshotOptions};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::screen::timeline::{MAX_PICTURE_BYTES, PICTURE_SIZE};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::agent::timeline::{GuestTimeline, GuestTimelineQuery};
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::action::timeline::ActionRecord;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;
use ring::Ring;
use screen_task::Item;

/// JPEG quality of the small pictures; windows and menus are recognizable.
const QUALITY: u8 = 60;
/// Age up to which a picture is that before an action: people and models need longer to look at a screen and
/// act.
const FRESH: Duration = Duration::from_millis(250);
/// How long a picture may take. 3 ms are usual, a second beside an encoder on a busy machine.
const PICTURE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most entries of a screen that wait for their pictures. Beyond it an entry is lost, because an action must
/// not wait.
const QUEUE: usize = 256;
/// Time in which the entries of a screen are completed on request: the picture before, and the one after.
const COMPLETE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a reader for actions that have begun.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Code of an action whose client left before the answer.
const UNANSWERED: &str = "unanswered";

/// A picture that is being taken; `None` when it failed.
type PendingPicture = Shared<BoxFuture<'static, Option<Bytes>>>;

/// A finished entry.
#[derive(Debug)]
pub struct FinishedEntry {
    /// Who acted.
    pub by: Option<Actor>,
    /// When the action began.
    pub began: Instant,
    /// The action and its outcome.
    pub record: ActionRecord,
    /// The screen before it, as JPEG.
    pub before: Option<Bytes>,
    /// The screen after it, as JPEG.
    pub after: Option<Bytes>,
}

/// What also receives the entries of a screen, such as a recording. It must not block.
pub trait EntrySink: Send + Sync {
    /// Adds the next entry.
    fn add(&self, entry: &Arc<FinishedEntry>);
}

/// An action that is about to be executed.
pub struct NewEntry {
    by: Option<Actor>,
    record: ActionRecord,
    /// Whether it has pictures.
    pictured: bool,
    sink: Option<Arc<dyn EntrySink>>,
}

impl NewEntry {
    /// The entry of an action.
    pub fn of_action(by: Option<Actor>, action: &Action, sink: Option<Arc<dyn EntrySink>>) -> Self {
        // Waits and screenshots change nothing.
        Self { by, record: record::of_action(action), pictured: action.options().is_some(), sink }
    }

    /// The entry of an action on an accessible element, for example `element_click`.
    pub fn of_element(by: Option<Actor>, action: &str, sink: Option<Arc<dyn EntrySink>>) -> Self {
        let record = ActionRecord { action: action.to_owned(), ..ActionRecord::default() };
        Self { by, record, pictured: true, sink }
    }

    /// The entry of what a viewer has begun to do. What it is, is known at its end.
    pub fn of_viewer(by: Option<Actor>, pictured: bool, sink: Option<Arc<dyn EntrySink>>) -> Self {
        Self { by, record: ActionRecord::default(), pictured, sink }
    }
}

/// The timelines of all screens. Clones share one state.
#[derive(Clone)]
pub struct Timelines(Arc<TimelinesState>);

impl std::fmt::Debug for Timelines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timelines").finish_non_exhaustive()
    }
}

struct TimelinesState {
    tasks: Tasks,
    ring: Mutex<Ring>,
    /// By the id of the screen.
    screens: Mutex<BTreeMap<String, Arc<ScreenTimeline>>>,
    /// Number of actions that have begun and have no entry yet.
    in_progress: watch::Sender<u32>,
}

/// The timeline of one screen.
struct ScreenTimeline {
    screen: Arc<Screen>,
    queue: mpsc::Sender<Item>,
    /// The newest picture, and when it was taken.
    newest: Mutex<Option<(Instant, PendingPicture)>>,
}

/// Entry that waits for its pictures.
struct UnfinishedEntry {
    by: Option<Actor>,
    began: Instant,
    record: ActionRecord,
    pictured: bool,
    before: Option<PendingPicture>,
    sink: Option<Arc<dyn EntrySink>>,
    _in_progress: InProgress,
}

/// Counts an action in progress until it is dropped.
struct InProgress(Arc<TimelinesState>);

impl InProgress {
    fn begin(state: &Arc<TimelinesState>) -> Self {
        state.in_progress.send_modify(|count| *count += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.send_modify(|count| *count -= 1);
    }
}

/// Entry of an action that is being executed. An action whose request ends before it does gets its entry too.
pub struct EntryInProgress {
    timelines: Timelines,
    queue: mpsc::Sender<Item>,
    /// `None` once it has ended.
    entry: Option<UnfinishedEntry>,
}

impl EntryInProgress {
    /// Ends the entry. `add_outcome` adds the outcome of the action.
    pub fn end(mut self, add_outcome: impl FnOnce(&mut ActionRecord)) {
        if let Some(mut entry) = self.entry.take() {
            add_outcome(&mut entry.record);
            let took = entry.began.elapsed();
            self.finish(entry, took);
        }
    }

    /// Ends the entry of an action that took this time and may have ended a while ago. The record is that of
    /// the action, besides its screen.
    pub fn end_as(mut self, record: ActionRecord, took: Duration) {
        if let Some(mut entry) = self.entry.take() {
            let screen = std::mem::take(&mut entry.record.screen);
            entry.record = ActionRecord { screen, ..record };
            self.finish(entry, took);
        }
    }

    fn finish(&self, mut entry: UnfinishedEntry, took: Duration) {
        entry.record.took = seconds(took);
        if self.queue.try_send(Item::Done(Box::new(entry))).is_err() {
            self.timelines.ring().skip();
            tracing::debug!("the queue of a timeline is full; an entry is lost");
        }
    }
}

impl Drop for EntryInProgress {
    fn drop(&mut self) {
        if let Some(mut entry) = self.entry.take() {
            entry.record.code = Some(UNANSWERED.to_owned());
            let took = entry.began.elapsed();
            self.finish(entry, took);
        }
    }
}

impl Timelines {
    /// Creates empty timelines, whose tasks belong to `tasks`.
    pub fn new(tasks: Tasks) -> Self {
        Self(Arc::new(TimelinesState {
            tasks,
            ring: Mutex::new(Ring::new()),
            screens: Mutex::default(),
            in_progress: watch::Sender::new(0),
        }))
    }

    /// Begins the entry of an action on a screen, just before the action.
    pub fn begin(&self, screen: &Arc<Screen>, new: NewEntry) -> EntryInProgress {
        let NewEntry { by, mut record, pictured, sink } = new;
        let timeline = self.screen(screen);
        screen.id.clone_into(&mut record.screen);
        let before = if pictured { timeline.picture_before() } else { None };
        let entry = UnfinishedEntry {
            by,
            began: Instant::now(),
            record,
            pictured,
            before,
            sink,
            _in_progress: InProgress::begin(&self.0),
        };
        EntryInProgress { timelines: self.clone(), queue: timeline.queue.clone(), entry: Some(entry) }
    }

    /// Completes the entries of the actions of a screen that have ended, with a picture of now.
    pub async fn complete(&self, screen: &Arc<Screen>) {
        let known = self.screens().get(&screen.id).filter(|it| Arc::ptr_eq(&it.screen, screen)).cloned();
        let Some(timeline) = known else { return };
        let (done, completed) = oneshot::channel();
        let completing = async {
            // The receivers are gone when the screen or the agent ends; then there is nothing to complete.
            if timeline.queue.send(Item::Complete(done)).await.is_ok() {
                let _ = completed.await;
            }
        };
        if tokio::time::timeout(COMPLETE_TIMEOUT, completing).await.is_err() {
            tracing::debug!(screen = screen.id, "the entries of a timeline were not complete in time");
        }
    }

    /// Returns entries, after a wait for actions that have begun if the query asks for it.
    pub async fn read(&self, query: &GuestTimelineQuery) -> GuestTimeline {
        let wait = Duration::from_secs(query.wait_seconds.unwrap_or(0).into()).min(MAX_WAIT);
        let mut in_progress = self.0.in_progress.subscribe();
        // The sender lives as long as `self`; after the timeout the answer says what is missing.
        let _ = tokio::time::timeout(wait, in_progress.wait_for(|count| *count == 0)).await;
        // Counted before the page is read, so that an entry that comes in between is not missed.
        let in_progress = *self.0.in_progress.borrow();
        GuestTimeline { in_progress, ..self.ring().page(query) }
    }

    /// Forgets all entries, and begins another series of numbers: the memory may be that of a snapshot, whose
    /// later numbers are used already, or of another computer.
    pub fn renew(&self) {
        *self.ring() = Ring::new();
    }

    /// Returns the timeline of a screen, and starts its task if there is none.
    fn screen(&self, screen: &Arc<Screen>) -> Arc<ScreenTimeline> {
        let mut screens = self.screens();
        if let Some(known) = screens.get(&screen.id)
            && Arc::ptr_eq(&known.screen, screen)
        {
            return Arc::clone(known);
        }
        let (queue, items) = mpsc::channel(QUEUE);
        let fresh = Arc::new(ScreenTimeline { screen: Arc::clone(screen), queue, newest: Mutex::default() });
        screens.insert(screen.id.clone(), Arc::clone(&fresh));
        let _task = self.0.tasks.spawn("timeline", screen_task::run(self.clone(), Arc::clone(&fresh), items));
        fresh
    }

    /// Forgets a screen that has ended.
    fn forget(&self, timeline: &Arc<ScreenTimeline>) {
        let mut screens = self.screens();
        if screens.get(&timeline.screen.id).is_some_and(|known| Arc::ptr_eq(known, timeline)) {
            screens.remove(&timeline.screen.id);
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn screens(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ScreenTimeline>>> {
        self.0.screens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenTimeline {
    /// The picture before an action that is about to begin; `None` when the screen is busy or down.
    fn picture_before(&self) -> Option<PendingPicture> {
        let mut newest = self.newest();
        if let Some((taken, picture)) = newest.as_ref()
            && taken.elapsed() < FRESH
        {
            return Some(picture.clone());
        }
        let taken = self.screen.queue_screenshot(picture_options(&self.screen).ok()?).ok()?;
        let picture = within_bounds(taken).boxed().shared();
        // The task of the screen polls it. Without it nobody would, and the picture has an encoder.
        self.queue.try_send(Item::Begins(picture.clone())).ok()?;
        *newest = Some((Instant::now(), picture.clone()));
        Some(picture)
    }

    /// Takes the picture after the last action.
    async fn picture_after(&self) -> Option<Bytes> {
        let taken = Instant::now();
        let options = picture_options(&self.screen).ok()?;
        let picture = within_bounds(self.screen.screenshot(options)).await;
        *self.newest() = Some((taken, std::future::ready(picture.clone()).boxed().shared()));
        picture
    }

    fn newest(&self) -> MutexGuard<'_, Option<(Instant, PendingPicture)>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Options of a small picture. The pointer is not drawn, so that its moves are no change of the picture.
fn picture_options(screen: &Screen) -> Result<ScreenshotOptions> {
    let size = screen.size();
    let [width, height] = PICTURE_SIZE;
    let scale = (width / f64::from(size.width)).min(height / f64::from(size.height)).min(1.0);
    ScreenshotOptions::parse(&ScreenshotQuery {
        format: Some(String::from("jpeg")),
        quality: Some(QUALITY),
        scale: Some(scale),
        cursor: Some(String::from("off")),
        ..ScreenshotQuery::default()
    })
}

/// Waits for a picture; `None` on a failure or a timeout, and for one that is too large.
async fn within_bounds(taken: impl Future<Output = Result<Picture>>) -> Option<Bytes> {
    let taken = tokio::time::timeout(PICTURE_TIMEOUT, taken).await;
    let taken = taken.unwrap_or_else(|_| Err(Error::timed_out("the picture took too long")));
    match taken {
        Ok(picture) => Some(picture.bytes).filter(|bytes| bytes.len() <= MAX_PICTURE_BYTES),
        Err(error) => {
            tracing::debug!(error = format_args!("{error:#}"), "no picture for a timeline");
            None
        }
    }
}

/// Seconds, rounded to milliseconds.
pub fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
