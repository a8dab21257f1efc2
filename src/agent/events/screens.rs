//! Watchers of the screens: one per screen, so that one that restarts or hangs does not affect the others.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};

use super::clipboard::ClipboardPublisher;
use super::idle::{IdleTracker, ScreenIdleState};
use super::watcher::{MAX_PAUSE, MIN_PAUSE, STABLE_AFTER, Watcher};
use crate::display::{Displays, EventCallback, Screen, ScreenEvent, WatchState};
use hotdesk_base::backoff::Backoff;
use hotdesk_domain::desktop::event::{EventKind, IDLE_SECONDS};
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData};

/// Types of screen events. One connection per screen serves all of them, so that a later subscription knows
/// the state before it.
pub(super) const KINDS: &[EventKind] = &[
    EventKind::WindowFocus,
    EventKind::WindowOpen,
    EventKind::WindowClose,
    EventKind::Clipboard,
    EventKind::ScreenChange,
    EventKind::Idle,
    EventKind::Active,
    EventKind::TitleChange,
];
/// How long the initial screens may take until they are watched; after that screens that are down are not
/// waited for.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(4);

/// Watcher of all screens.
#[derive(Debug)]
pub(super) struct ScreenWatcher {
    feed: Feed,
    displays: Displays,
}

impl ScreenWatcher {
    pub(super) fn new(feed: Feed, displays: Displays) -> Self {
        Self { feed, displays }
    }
}

impl Watcher for ScreenWatcher {
    const NAME: &'static str = "screens";
    const KINDS: &'static [EventKind] = KINDS;

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let tracker = IdleTracker::new(self.feed.clone());
        let mut added = self.displays.added();
        let mut known: Vec<Weak<Screen>> = Vec::new();
        let mut followed: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        // Each initial screen holds a sender until it is watched.
        let (starting, mut started) = mpsc::channel::<()>(1);
        let (mut starting, mut has_begun) = (Some(starting), false);
        let deadline = tokio::time::sleep(BEGIN_TIMEOUT);
        tokio::pin!(deadline);
        loop {
            added.mark_unchanged();
            known.retain(|screen| screen.strong_count() > 0);
            for screen in self.displays.list() {
                if !known.iter().any(|other| other.as_ptr() == Arc::as_ptr(&screen)) {
                    known.push(Arc::downgrade(&screen));
                    let (feed, place) = (self.feed.clone(), tracker.add_screen());
                    followed.push(Box::pin(follow(feed, screen, place, starting.clone())));
                }
            }
            starting = None;
            tokio::select! {
                _ = added.changed() => {}
                Some(()) = followed.next() => {}
                _ = started.recv(), if !has_begun => {
                    has_begun = true;
                    begun();
                }
                () = &mut deadline, if !has_begun => {
                    has_begun = true;
                    begun();
                }
            }
        }
    }
}

/// Watches a screen until it is removed. `starting` belongs to an initial screen and is dropped once the
/// screen is watched.
async fn follow(
    feed: Feed,
    screen: Arc<Screen>,
    place: ScreenIdleState,
    mut starting: Option<mpsc::Sender<()>>,
) {
    let is_new = starting.is_none();
    let state = if is_new { WatchState::of_new_screen() } else { WatchState::of_existing_screen() };
    let (copied, mut clipboard) = (Arc::new(Notify::new()), ClipboardPublisher::default());
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
    while screen.wait_until_ready().await {
        let began = Instant::now();
        let why = match screen.watch(&state, event_callback(&feed, &screen.id, &place, &copied)).await {
            Err(error) => format!("{error:#}"),
            Ok(mut watching) => {
                place.begin(watching.idle, is_new);
                starting = None;
                loop {
                    tokio::select! {
                        why = watching.ended() => break why,
                        () = copied.notified() => clipboard.publish(&feed, &screen).await,
                    }
                }
            }
        };
        let pause = backoff.after(began.elapsed());
        if backoff.is_first() {
            tracing::warn!(
                screen = screen.id,
                why,
                "cannot watch a screen; its events are missing until the next attempt"
            );
        }
        tokio::time::sleep(pause).await;
    }
    drop(starting);
    state.close_all(&mut event_callback(&feed, &screen.id, &place, &copied));
    tokio::time::sleep(Duration::from_secs(IDLE_SECONDS.into())).await;
    place.remove();
}

/// Returns the callback that publishes a screen's events.
fn event_callback(feed: &Feed, screen: &str, place: &ScreenIdleState, copied: &Arc<Notify>) -> EventCallback {
    let (feed, screen) = (feed.clone(), screen.to_owned());
    let (place, copied) = (place.clone(), Arc::clone(copied));
    Box::new(move |event| {
        let data = match event {
            ScreenEvent::Opened { id, title } => EventData::window_open(id, title, &*screen),
            ScreenEvent::Closed { id } => EventData::window_close(id, &*screen),
            ScreenEvent::Focused { id, title } => EventData::window_focus(id, title, &*screen),
            ScreenEvent::TitleChanged { id, title } => EventData::title_change(id, title, &*screen),
            ScreenEvent::Resized(size) => EventData::ScreenChange {
                width: size.width.into(),
                height: size.height.into(),
                screen: screen.clone(),
            },
            ScreenEvent::Copied => return copied.notify_one(),
            ScreenEvent::BecameIdle => return place.set_idle(),
            ScreenEvent::BecameActive => return place.set_active(),
        };
        feed.publish(Event::now(data));
    })
}
