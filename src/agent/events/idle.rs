//! Idle state of the computer: idle when no screen had input for [`IDLE_SECONDS`].
//!
//! Each screen reports its own state. A removed screen counts as used until that time has passed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotdesk_domain::desktop::event::IDLE_SECONDS;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData};

/// Idle state of all screens; clones share it.
#[derive(Clone, Debug)]
pub(super) struct IdleTracker {
    feed: Feed,
    state: Arc<Mutex<IdleState>>,
}

#[derive(Debug, Default)]
struct IdleState {
    next: u64,
    /// Whether each screen is idle.
    screens: BTreeMap<u64, bool>,
    idle: bool,
}

/// Handle for the state of one screen.
#[derive(Clone, Debug)]
pub(super) struct ScreenIdleState {
    tracker: IdleTracker,
    number: u64,
}

impl IdleTracker {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, state: Arc::default() }
    }

    /// Adds a screen, which counts after [`ScreenIdleState::begin`].
    pub(super) fn add_screen(&self) -> ScreenIdleState {
        let mut state = self.lock();
        state.next += 1;
        ScreenIdleState { tracker: self.clone(), number: state.next }
    }

    fn lock(&self) -> MutexGuard<'_, IdleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleState {
    fn all_idle(&self) -> bool {
        !self.screens.is_empty() && self.screens.values().all(|is_idle| *is_idle)
    }

    /// Publishes an event when the computer has become idle.
    fn settle(&mut self, feed: &Feed) {
        if !self.idle && self.all_idle() {
            self.idle = true;
            feed.publish(Event::now(EventData::Idle { idle_seconds: IDLE_SECONDS.into() }));
        }
    }
}

impl ScreenIdleState {
    /// Starts to count the screen. Its earlier state is not published; a screen that was created while the
    /// computer is idle had no input either.
    pub(super) fn begin(&self, is_idle: bool, is_new: bool) {
        let mut state = self.tracker.lock();
        let idle = state.idle;
        state.screens.entry(self.number).or_insert(is_idle || (is_new && idle));
        if !is_new {
            state.idle = state.all_idle();
        }
    }

    /// The screen has become idle.
    pub(super) fn set_idle(&self) {
        let mut state = self.tracker.lock();
        state.screens.insert(self.number, true);
        state.settle(&self.tracker.feed);
    }

    /// The screen was used.
    pub(super) fn set_active(&self) {
        let mut state = self.tracker.lock();
        state.screens.insert(self.number, false);
        if std::mem::take(&mut state.idle) {
            self.tracker.feed.publish(Event::now(EventData::Active {}));
        }
    }

    /// The screen was removed long ago: it does not count any more.
    pub(super) fn remove(&self) {
        let mut state = self.tracker.lock();
        state.screens.remove(&self.number);
        state.settle(&self.tracker.feed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use hotdesk_domain::desktop::event::{EventKind, EventKinds};
    use hotdesk_http::feed::Listener;

    fn tracker_and_listener() -> (IdleTracker, Listener) {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add(EventKinds::from_iter([EventKind::Idle, EventKind::Active]));
        (IdleTracker::new(feed), listener)
    }

    fn received(listener: &Listener) -> Vec<String> {
        let all = std::iter::from_fn(|| listener.next().now_or_never());
        all.map(|news| if news.message().contains(r#""type":"idle""#) { "idle" } else { "active" }.into())
            .collect()
    }

    #[test]
    fn a_computer_is_idle_when_all_its_screens_are() {
        let (tracker, listener) = tracker_and_listener();
        let (one, other) = (tracker.add_screen(), tracker.add_screen());
        one.begin(false, false);
        other.begin(true, false);
        assert!(received(&listener).is_empty());
        one.set_idle();
        one.set_idle();
        assert_eq!(received(&listener), ["idle"]);
        other.set_active();
        one.set_active();
        one.set_idle();
        assert_eq!(received(&listener), ["active"]);
        other.set_idle();
        assert_eq!(received(&listener), ["idle"]);
    }

    #[test]
    fn an_earlier_idle_state_is_not_published_but_its_end_is() {
        let (tracker, listener) = tracker_and_listener();
        let (one, other) = (tracker.add_screen(), tracker.add_screen());
        one.begin(true, false);
        other.begin(true, false);
        one.set_idle();
        assert!(received(&listener).is_empty());
        one.set_active();
        assert_eq!(received(&listener), ["active"]);
    }

    #[test]
    fn adding_and_removing_screens_is_no_input() {
        let (tracker, listener) = tracker_and_listener();
        let (one, other) = (tracker.add_screen(), tracker.add_screen());
        one.begin(false, false);
        one.set_idle();
        assert_eq!(received(&listener), ["idle"]);
        other.begin(false, true);
        other.set_idle();
        assert!(received(&listener).is_empty());
        other.set_active();
        assert_eq!(received(&listener), ["active"]);
        other.remove();
        assert_eq!(received(&listener), ["idle"]);
        one.remove();
        assert!(received(&listener).is_empty());
    }
}
