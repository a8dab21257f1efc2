//! Control of the screens of running computers, as pages of the console are told of it.
//!
//! ```text
//!   event hub --> control_changed, help_requested, or a new connection --> GET screens, GET control
//!                                                                            | what differs
//!                                                                            v
//!                                                                          pages
//! ```
//! The agent tells of changes, so an idle computer costs one idle connection. It is not trusted, T5
//! (docs/security.md): its answers are parsed and bounded, and it cannot cause more than two reads a second.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::Method;
use tokio::sync::broadcast;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::LiveUpdate;
use crate::computers::fleet::Fleet;
use crate::events::Events;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_wire::desktop::action::ScreenList;
use hotdesk_wire::desktop::action::control::ScreenControl;

/// Events after which control differs.
const KINDS: [EventKind; 2] = [EventKind::ControlChanged, EventKind::HelpRequested];
/// Least time between two reads of a computer. A burst of events is one read.
const READ_PAUSE: Duration = Duration::from_millis(500);
/// Time after a failed read: an agent that restarts is back by then, and one of an earlier version has no
/// such route.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// Most screens of a computer (docs/api/screens.md).
const MAX_SCREENS: usize = 4;
/// Largest control in bytes of JSON. Its three texts have at most 2,000 characters each, of at most six bytes
/// with escapes.
const MAX_CONTROL_BYTES: usize = 48 * 1024;

/// Watches of all computers.
pub(super) struct ControlWatches {
    events: Events,
    fleet: Fleet,
    tasks: Tasks,
    updates: broadcast::Sender<LiveUpdate>,
    watches: Arc<Mutex<Watches>>,
}

type Watches = HashMap<ComputerId, Weak<ControlWatch>>;

/// Watch of one computer, which pages share; it ends with the last of them.
#[derive(Debug)]
pub(super) struct ControlWatch {
    computer: ComputerId,
    known: Arc<Mutex<KnownControls>>,
    watches: Arc<Mutex<Watches>>,
    _watching: DropGuard,
}

/// Controls of one computer as they were told, by the id of the screen.
#[derive(Debug, Default)]
struct KnownControls(BTreeMap<String, ScreenControl>);

/// Whether somebody holds a screen or asks for help on it.
pub(super) fn is_engaged(control: &ScreenControl) -> bool {
    control.holder.is_some() || control.help.is_some()
}

impl ControlWatches {
    /// Creates an empty set of watches, which tell pages by `updates`.
    pub(super) fn new(
        events: Events,
        fleet: Fleet,
        tasks: Tasks,
        updates: broadcast::Sender<LiveUpdate>,
    ) -> Self {
        Self { events, fleet, tasks, updates, watches: Arc::default() }
    }

    /// Returns the watch of a computer, and begins it if there is none. A page that was subscribed to the
    /// updates before gets every control that differs from [`ControlWatch::controls`].
    pub(super) fn watch(&self, computer: ComputerId) -> Arc<ControlWatch> {
        let mut watches = lock(&self.watches);
        if let Some(watch) = watches.get(&computer).and_then(Weak::upgrade) {
            return watch;
        }
        let (ended, stopping) = (CancellationToken::new(), self.tasks.stopping());
        let known = Arc::<Mutex<KnownControls>>::default();
        let job = WatchJob {
            computer,
            events: self.events.clone(),
            fleet: self.fleet.clone(),
            updates: self.updates.clone(),
            known: Arc::clone(&known),
        };
        let left = ended.clone();
        let _task = self.tasks.spawn("control watch", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = job.run() => match never {},
            }
        });
        let all = Arc::clone(&self.watches);
        let watch = Arc::new(ControlWatch { computer, known, watches: all, _watching: ended.drop_guard() });
        watches.insert(computer, Arc::downgrade(&watch));
        watch
    }
}

impl ControlWatch {
    /// Returns the computer.
    pub(super) fn computer(&self) -> ComputerId {
        self.computer
    }

    /// Returns the controls of its screens, as far as they were read.
    pub(super) fn controls(&self) -> Vec<ScreenControl> {
        lock(&self.known).0.values().cloned().collect()
    }
}

impl Drop for ControlWatch {
    fn drop(&mut self) {
        let mut watches = lock(&self.watches);
        // Another page may have begun the next watch in this moment.
        if watches.get(&self.computer).is_some_and(|watch| watch.strong_count() == 0) {
            watches.remove(&self.computer);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Task of one watch.
struct WatchJob {
    computer: ComputerId,
    events: Events,
    fleet: Fleet,
    updates: broadcast::Sender<LiveUpdate>,
    known: Arc<Mutex<KnownControls>>,
}

impl WatchJob {
    /// Follows the computer while it runs. It never returns; it ends by being dropped.
    async fn run(self) -> Infallible {
        loop {
            if self.fleet.wait_running(self.computer).await {
                tokio::select! {
                    // The connection ends before the memory of the computer is saved or copied.
                    _because = self.fleet.wait_ended(self.computer) => {}
                    never = self.follow() => match never {},
                }
            }
            sleep(READ_PAUSE).await;
        }
    }

    /// Reads the controls whenever they may differ.
    async fn follow(&self) -> Infallible {
        let mut subscription = self.events.subscribe(self.computer, KINDS.into_iter().collect());
        loop {
            // Before the read, so that a later change is told by an event.
            subscription.begun().await;
            let read = self.read().await;
            let has_failed = read.is_err();
            match read {
                Ok(controls) => self.tell(controls),
                Err(error) => tracing::debug!(
                    computer = %self.computer,
                    error = format_args!("{error:#}"),
                    "could not read who controls the screens of a computer; it is retried"
                ),
            }
            let retry = async {
                if has_failed {
                    sleep(FAILED_PAUSE).await;
                } else {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                () = subscription.next() => {}
                () = retry => {}
            }
            sleep(READ_PAUSE).await;
            // The next read is later than these.
            subscription.skip();
        }
    }

    /// Reads the control of each screen. It neither wakes the computer nor counts as its use.
    async fn read(&self) -> Result<Vec<ScreenControl>> {
        // A frozen computer does not answer.
        let guest = self.fleet.running_guest(self.computer);
        let guest = guest.filter(|_| !self.fleet.engine().is_frozen(self.computer));
        let guest = guest.ok_or_else(|| Error::unavailable("The computer does not run"))?;
        let list: ScreenList = guest.call(Method::GET, "/screens", (), None::<&()>, QUICK_TIMEOUT).await?;
        let mut controls = Vec::new();
        for screen in list.screens.into_iter().take(MAX_SCREENS) {
            let path = format!("/screens/{}/control", percent_encode(&screen.id));
            let control: ScreenControl =
                guest.call(Method::GET, &path, (), None::<&()>, QUICK_TIMEOUT).await?;
            let control = ScreenControl { screen: screen.id, ..control };
            if serde_json::to_string(&control).map_err(Error::internal)?.len() > MAX_CONTROL_BYTES {
                return Err(Error::failed("The computer's agent sent a control that is too large"));
            }
            controls.push(control);
        }
        Ok(controls)
    }

    /// Tells the pages what differs, as one step with what [`ControlWatch::controls`] returns.
    fn tell(&self, controls: Vec<ScreenControl>) {
        let mut known = lock(&self.known);
        for control in known.replace(controls) {
            // An error says that there is no page.
            let _none = self.updates.send(LiveUpdate::Control(self.computer, Arc::new(control)));
        }
    }
}

impl KnownControls {
    /// Replaces the controls by those that were read. Returns those that differ, and those of removed
    /// screens, which nobody holds any more.
    fn replace(&mut self, controls: Vec<ScreenControl>) -> Vec<ScreenControl> {
        let read: BTreeMap<_, _> =
            controls.into_iter().map(|control| (control.screen.clone(), control)).collect();
        let removed = self.0.values().filter(|before| !read.contains_key(&before.screen));
        let freed = removed.map(|before| ScreenControl {
            screen: before.screen.clone(),
            revision: before.revision.saturating_add(1),
            ..ScreenControl::default()
        });
        let other = read.values().filter(|control| self.0.get(&control.screen) != Some(*control)).cloned();
        let told = freed.chain(other).collect();
        self.0 = read;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::identity::access::actor::Actor;

    fn control(screen: &str, revision: u64, by: Option<Actor>) -> ScreenControl {
        let holder = by.map(Into::into);
        ScreenControl { screen: screen.to_owned(), revision, holder, ..ScreenControl::default() }
    }

    #[test]
    fn what_differs_is_told_once() {
        let mut known = KnownControls::default();
        let free = control("default", 1, None);
        assert_eq!(known.replace(vec![free.clone()]), std::slice::from_ref(&free));
        assert!(known.replace(vec![free.clone()]).is_empty());
        let held = control("default", 2, Some(Actor::Template));
        let more = control("screen-100", 1, None);
        assert_eq!(known.replace(vec![held.clone(), more.clone()]), [held.clone(), more.clone()]);
        assert!(is_engaged(&held) && !is_engaged(&more));
        // A restarted computer counts anew.
        assert_eq!(known.replace(vec![free.clone(), more]), std::slice::from_ref(&free));
        let other = control("screen-100", 7, Some(Actor::Template));
        assert_eq!(known.replace(vec![free.clone(), other.clone()]), [other]);
        // A removed screen is held by nobody.
        assert_eq!(known.replace(vec![free.clone()]), [control("screen-100", 8, None)]);
        assert!(known.replace(vec![free]).is_empty());
    }
}
