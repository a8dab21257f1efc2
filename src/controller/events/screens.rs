//! Changes of screens. One watch per computer asks its agent each second, and only while somebody watches:
//! subscriptions of MCP clients and pages of the console share it.
//!
//! ```text
//! subscriptions -- hold --> watch of a computer --> GET /screenshot, If-None-Match: the last frame
//!       ^------- number of changes --------|              304, or the name of another frame
//! ```
//! The desktop events have none for what programs paint. A frame has another name after anything was painted,
//! wherever that was, so that one pixel of it is enough.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::ConditionalScreenshot;
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Time between two looks at a screen: a client reads a picture for each notification.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Time after a failed look. The agent may be busy or of an earlier version, so that the next fails as well.
const FAILED_INTERVAL: Duration = Duration::from_secs(10);
/// How long a subscription waits for the first look. Later changes are told; a slow agent must not hold the
/// request.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// The part of the screen that is looked at. Its pixels do not matter, so that it is the smallest.
const REGION: &str = "0,0,1,1";

/// Watches of all computers; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ScreenWatches(Arc<Mutex<Watches>>);

type Watches = HashMap<ComputerId, Weak<ScreenWatch>>;

/// Watch of one computer, which its subscribers share; it ends with the last of them.
#[derive(Debug)]
struct ScreenWatch {
    computer: ComputerId,
    /// Number of changes since the first look; `None` until that.
    changes: watch::Receiver<Option<u64>>,
    watches: Arc<Mutex<Watches>>,
    _looking: DropGuard,
}

/// A subscription's view of a watch.
#[derive(Debug)]
pub struct ScreenChanges {
    count: watch::Receiver<Option<u64>>,
    /// The count that the subscriber knows of; `None` when the first look itself is a change for it.
    known: Option<u64>,
    _watch: Arc<ScreenWatch>,
}

impl ScreenWatches {
    /// Watches the boot screen of a computer, also while it does not run. The caller has checked access.
    pub fn watch(&self, fleet: &Fleet, tasks: &Tasks, computer: ComputerId, size: Size) -> ScreenChanges {
        ScreenChanges::of(self.find_or_begin(fleet, tasks, computer, size))
    }

    /// Returns how many computers are watched.
    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.0).len()
    }

    fn find_or_begin(
        &self,
        fleet: &Fleet,
        tasks: &Tasks,
        computer: ComputerId,
        size: Size,
    ) -> Arc<ScreenWatch> {
        let mut watches = lock(&self.0);
        if let Some(watch) = watches.get(&computer).and_then(Weak::upgrade) {
            return watch;
        }
        let (sender, changes) = watch::channel(None);
        let ended = CancellationToken::new();
        let (left, stopping) = (ended.clone(), tasks.stopping());
        let looking = look_each_second(fleet.clone(), computer, size, sender);
        let _task = tasks.spawn("screen watch", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = looking => match never {},
            }
        });
        let all = Arc::clone(&self.0);
        let watch = Arc::new(ScreenWatch { computer, changes, watches: all, _looking: ended.drop_guard() });
        watches.insert(computer, Arc::downgrade(&watch));
        watch
    }
}

impl Drop for ScreenWatch {
    fn drop(&mut self) {
        let mut watches = lock(&self.watches);
        // Another subscription may have begun the next watch in this moment.
        if watches.get(&self.computer).is_some_and(|watch| watch.strong_count() == 0) {
            watches.remove(&self.computer);
        }
    }
}

fn lock(watches: &Mutex<Watches>) -> MutexGuard<'_, Watches> {
    watches.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScreenChanges {
    fn of(watch: Arc<ScreenWatch>) -> Self {
        let count = watch.changes.clone();
        let known = Some(count.borrow().unwrap_or_default());
        Self { count, known, _watch: watch }
    }

    /// Waits for the first look, at most [`FIRST_LOOK_TIMEOUT`]. A picture that is taken after this differs
    /// from the screen only by changes that [`Self::next`] tells.
    pub async fn begin(&mut self) {
        self.begin_within(FIRST_LOOK_TIMEOUT).await;
    }

    /// Begins without a wait. The first look is a change if it is still to come: the subscriber may have seen
    /// an earlier picture.
    pub fn begin_at_once(&mut self) {
        if self.count.borrow().is_none() {
            self.begin_with_change();
        }
    }

    /// Makes the present state a change. For a subscriber who was told earlier that changes are told.
    pub fn begin_with_change(&mut self) {
        self.known = None;
    }

    async fn begin_within(&mut self, timeout: Duration) {
        let looked = self.count.wait_for(Option::is_some);
        if tokio::time::timeout(timeout, looked).await.is_err() {
            self.begin_with_change();
        }
    }

    /// Waits until the screen has changed since the last call. Cancel-safe.
    ///
    /// # Errors
    /// `Unavailable` when the service stops.
    pub async fn next(&mut self) -> Result<()> {
        let known = self.known;
        let changed = self.count.wait_for(|count| *count > known).await;
        self.known = *changed.map_err(|_| Error::unavailable("The service is shutting down"))?;
        Ok(())
    }
}

/// What a look at a screen found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// The computer does not run.
    Away,
    /// The same frame.
    Same,
    /// A frame with this name.
    Other(Arc<str>),
}

/// Counts the changes of a screen. It never returns; it ends by being dropped.
async fn look_each_second(
    fleet: Fleet,
    computer: ComputerId,
    size: Size,
    sender: watch::Sender<Option<u64>>,
) -> Infallible {
    let mut frame: Option<Arc<str>> = None;
    loop {
        let pause = match look(&fleet, computer, size, frame.as_ref()).await {
            Ok(found) => {
                note(&sender, &mut frame, found);
                INTERVAL
            }
            Err(error) => {
                tracing::debug!(%computer, error = format_args!("{error:#}"), "could not look at a screen");
                note(&sender, &mut frame, Look::Away);
                FAILED_INTERVAL
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Looks at a screen. It neither wakes a computer nor counts as its use.
async fn look(fleet: &Fleet, computer: ComputerId, size: Size, known: Option<&Arc<str>>) -> Result<Look> {
    // A frozen computer does not answer.
    let guest = fleet.running_guest(computer).filter(|_| !fleet.engine().is_frozen(computer));
    let Some(guest) = guest else { return Ok(Look::Away) };
    let query = ScreenshotQuery {
        format: Some("png".to_owned()),
        region: Some(REGION.to_owned()),
        // The pointer alone is no change, and its image costs the X server another request.
        cursor: Some("off".to_owned()),
        ..ScreenshotQuery::default()
    };
    let held = IfNoneMatch(known.into_iter().cloned().collect());
    Ok(match guest.screenshot(&query, size, &held).await? {
        ConditionalScreenshot::NotModified(_) => Look::Same,
        ConditionalScreenshot::Image(image) => {
            let unnamed = || Error::failed("The computer's agent sent an image without its name");
            let frame = image.headers.ok_or_else(unnamed)?.frame;
            if known == Some(&frame) { Look::Same } else { Look::Other(frame) }
        }
    })
}

/// Counts what a look found. The first frame is no change if it comes with the first look.
fn note(sender: &watch::Sender<Option<u64>>, frame: &mut Option<Arc<str>>, found: Look) {
    let is_first = sender.borrow().is_none();
    let changed = match found {
        Look::Away | Look::Same => false,
        Look::Other(name) => {
            *frame = Some(name);
            !is_first
        }
    };
    if is_first || changed {
        sender.send_modify(|count| *count = Some(count.map_or(0, |count| count + 1)));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn only_another_frame_after_the_first_look_is_a_change() {
        let other = |name: &str| Look::Other(name.into());
        for (looks, count) in [
            (vec![other("1")], 0),
            (vec![other("1"), Look::Same, Look::Same], 0),
            (vec![other("1"), other("2"), Look::Same, other("3")], 2),
            (vec![Look::Away], 0),
            (vec![Look::Away, Look::Away, other("1"), Look::Same], 1),
            (vec![other("1"), Look::Away, Look::Same], 0),
        ] {
            let (sender, mut frame) = (watch::Sender::new(None), None);
            let told = format!("{looks:?}");
            for look in looks {
                note(&sender, &mut frame, look);
            }
            assert_eq!(*sender.borrow(), Some(count), "{told}");
        }
    }

    #[tokio::test]
    async fn a_subscription_is_told_of_changes_after_its_begin() {
        let (sender, changes) = watch::channel(None);
        let (watches, computer) = (ScreenWatches::default(), ComputerId::random());
        let all = Arc::clone(&watches.0);
        let _looking = CancellationToken::new().drop_guard();
        let watch = Arc::new(ScreenWatch { computer, changes, watches: all, _looking });
        lock(&watches.0).insert(computer, Arc::downgrade(&watch));
        let mut frame = None;
        let mut paint = |name: &str| note(&sender, &mut frame, Look::Other(name.into()));
        let mut first = ScreenChanges::of(Arc::clone(&watch));
        // The first look is over, and more, before the subscription waits for it.
        paint("1");
        paint("2");
        first.begin().await;
        first.next().await.unwrap();
        let mut second = ScreenChanges::of(watch);
        second.begin().await;
        for changes in [&mut first, &mut second] {
            assert!(changes.next().now_or_never().is_none());
        }
        paint("3");
        paint("4");
        for changes in [&mut first, &mut second] {
            changes.next().await.unwrap();
            assert!(changes.next().now_or_never().is_none(), "two changes are told once");
        }
        second.begin_with_change();
        second.next().await.unwrap();
        assert!(second.next().now_or_never().is_none());
        drop(first);
        assert_eq!(watches.count(), 1);
        drop(second);
        assert_eq!(watches.count(), 0, "nobody is subscribed");
    }

    #[tokio::test]
    async fn who_begins_at_once_is_told_of_the_first_look_alone() {
        let (sender, changes) = watch::channel(None);
        let watches = Arc::default();
        let _looking = CancellationToken::new().drop_guard();
        let watch = Arc::new(ScreenWatch { computer: ComputerId::random(), changes, watches, _looking });
        let mut early = ScreenChanges::of(Arc::clone(&watch));
        early.begin_at_once();
        assert!(early.next().now_or_never().is_none());
        note(&sender, &mut None, Look::Other("1".into()));
        early.next().await.unwrap();
        let mut late = ScreenChanges::of(watch);
        late.begin_at_once();
        for changes in [&mut early, &mut late] {
            assert!(changes.next().now_or_never().is_none());
        }
    }

    #[tokio::test]
    async fn a_late_first_look_is_a_change() {
        let (sender, changes) = watch::channel(None);
        let watches = Arc::default();
        let _looking = CancellationToken::new().drop_guard();
        let watch = ScreenWatch { computer: ComputerId::random(), changes, watches, _looking };
        let mut changes = ScreenChanges::of(Arc::new(watch));
        changes.begin_within(Duration::ZERO).await;
        note(&sender, &mut None, Look::Other("1".into()));
        changes.next().await.unwrap();
        assert!(changes.next().now_or_never().is_none());
    }
}
