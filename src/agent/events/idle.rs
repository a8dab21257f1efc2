//! Is the computer idle? When none of its screens had input for the time of the specification. The screens tell when
//! theirs begins and ends; a screen that went counts as used until that time has passed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotdesk_domain::event::IDLE_SECONDS;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event};

/// The rest of all screens; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    feed: Feed,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Whether each screen is at rest.
    places: BTreeMap<u64, bool>,
    idle: bool,
}

/// A screen's part in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    rest: Rest,
    number: u64,
}

impl Rest {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, state: Arc::default() }
    }

    /// A place for one more screen, which counts from [`Place::begin`] on.
    pub(super) fn place(&self) -> Place {
        let mut state = self.lock();
        state.next += 1;
        Place { rest: self.clone(), number: state.next }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn all_rest(&self) -> bool {
        !self.places.is_empty() && self.places.values().all(|rests| *rests)
    }

    /// Tells when the computer has become idle.
    fn settle(&mut self, feed: &Feed) {
        if !self.idle && self.all_rest() {
            self.idle = true;
            feed.publish(Event::now(Data::Idle { idle_seconds: IDLE_SECONDS.into() }));
        }
    }
}

impl Place {
    /// The screen is watched from now on. Nothing is told of what was so before; a screen that was made while the
    /// computer is idle has had no input either.
    pub(super) fn begin(&self, rests: bool, is_new: bool) {
        let mut state = self.rest.lock();
        let idle = state.idle;
        state.places.entry(self.number).or_insert(rests || (is_new && idle));
        if !is_new {
            state.idle = state.all_rest();
        }
    }

    /// Nobody used the screen for long.
    pub(super) fn rested(&self) {
        let mut state = self.rest.lock();
        state.places.insert(self.number, true);
        state.settle(&self.rest.feed);
    }

    /// Somebody used the screen.
    pub(super) fn moved(&self) {
        let mut state = self.rest.lock();
        state.places.insert(self.number, false);
        if std::mem::take(&mut state.idle) {
            self.rest.feed.publish(Event::now(Data::Active {}));
        }
    }

    /// The screen is gone, and so long ago that it counts no more.
    pub(super) fn leave(&self) {
        let mut state = self.rest.lock();
        state.places.remove(&self.number);
        state.settle(&self.rest.feed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use hotdesk_domain::event::{Kind, Kinds};
    use hotdesk_http::feed::Listener;

    fn stage() -> (Rest, Listener) {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add(Kinds::from_iter([Kind::Idle, Kind::Active]));
        (Rest::new(feed), listener)
    }

    fn told(listener: &Listener) -> Vec<String> {
        let all = std::iter::from_fn(|| listener.next().now_or_never());
        all.map(|news| if news.message().contains(r#""type":"idle""#) { "idle" } else { "active" }.into())
            .collect()
    }

    #[test]
    fn a_computer_is_idle_when_all_its_screens_are() {
        let (rest, listener) = stage();
        let (one, other) = (rest.place(), rest.place());
        one.begin(false, false);
        other.begin(true, false);
        assert!(told(&listener).is_empty());
        one.rested();
        one.rested();
        assert_eq!(told(&listener), ["idle"]);
        other.moved();
        one.moved();
        one.rested();
        assert_eq!(told(&listener), ["active"]);
        other.rested();
        assert_eq!(told(&listener), ["idle"]);
    }

    #[test]
    fn what_was_so_before_is_not_told_and_its_end_is() {
        let (rest, listener) = stage();
        let (one, other) = (rest.place(), rest.place());
        one.begin(true, false);
        other.begin(true, false);
        one.rested();
        assert!(told(&listener).is_empty());
        one.moved();
        assert_eq!(told(&listener), ["active"]);
    }

    #[test]
    fn screens_that_come_and_go_are_no_input() {
        let (rest, listener) = stage();
        let (one, other) = (rest.place(), rest.place());
        one.begin(false, false);
        one.rested();
        assert_eq!(told(&listener), ["idle"]);
        other.begin(false, true);
        other.rested();
        assert!(told(&listener).is_empty());
        other.moved();
        assert_eq!(told(&listener), ["active"]);
        other.leave();
        assert_eq!(told(&listener), ["idle"]);
        one.leave();
        assert!(told(&listener).is_empty());
    }
}
