//! Control of one screen: its state, the file that outlives the agent, and the gate that input passes.
//!
//! ```text
//! input:    check -> gate (shared) -> check -> act
//! a taker:  change of the state -> gate (alone): input that began before has ended
//! ```
//! Lock order: the screen's turn, then the gate. The rules are in
//! [`hotdesk_domain::desktop::screen::control`].

mod changes;
mod record;

use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, watch};

use hotdesk_base::clock;
use hotdesk_domain::desktop::screen::control::Control;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::action::control::ScreenControl;
use record::{record, stored};

/// Most requests that wait for a change of one screen's control: viewers, runs and scripts of one computer
/// stay far below.
const MAX_WAITERS: usize = 64;

/// Control of a screen. Clones share one state.
#[derive(Clone, Debug)]
pub struct ControlLease(Arc<LeaseState>);

#[derive(Debug)]
struct LeaseState {
    /// Id of the screen.
    screen: String,
    /// The file of the boot screen. Other screens end with the agent, so they have none.
    file: Option<PathBuf>,
    feed: Feed,
    control: watch::Sender<Control>,
    /// Makes a change, its file and its event one step.
    changes: Mutex<()>,
    gate: RwLock<()>,
    waiters: Semaphore,
}

/// Input that is admitted; a taker waits until it is dropped.
#[derive(Debug)]
pub struct AdmittedInput<'a> {
    _gate: RwLockReadGuard<'a, ()>,
}

impl ControlLease {
    /// Control of a screen; with a file, that of an earlier agent is continued. Changes are published to the
    /// feed.
    pub(in crate::display) fn open(screen: &str, file: Option<PathBuf>, feed: Feed) -> Self {
        let mut control = file.as_deref().and_then(stored).unwrap_or_default();
        // Nobody listens yet.
        control.expire(clock::now());
        Self(Arc::new(LeaseState {
            screen: screen.to_owned(),
            file,
            feed,
            control: watch::Sender::new(control),
            changes: Mutex::default(),
            gate: RwLock::default(),
            waiters: Semaphore::new(MAX_WAITERS),
        }))
    }

    /// Checks that an actor may act now.
    ///
    /// # Errors
    /// `Conflict` (`control_held`) while somebody else holds the screen.
    pub fn check(&self, actor: Option<Actor>) -> Result<()> {
        self.0.control.borrow().check(&self.0.screen, actor, clock::now())
    }

    /// Admits input of an actor until the returned value is dropped. It waits only for somebody who is just
    /// taking the screen.
    ///
    /// # Errors
    /// Those of [`ControlLease::check`], at once.
    pub async fn admit(&self, actor: Option<Actor>) -> Result<AdmittedInput<'_>> {
        self.check(actor)?;
        let gate = self.0.gate.read().await;
        // Somebody may have taken it meanwhile.
        self.check(actor)?;
        Ok(AdmittedInput { _gate: gate })
    }

    /// Waits until all input that was admitted before has ended. None is admitted until the returned value is
    /// dropped.
    pub async fn drained(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.gate.write().await
    }

    /// Waits until input of an actor is refused, and returns the refusal.
    pub async fn refusal(&self, actor: Option<Actor>) -> Error {
        let mut changes = self.changes();
        loop {
            if let Err(refusal) = self.check(actor) {
                return refusal;
            }
            // It cannot fail, because the sender is in `self`.
            if changes.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// A receiver that is notified of each change.
    pub fn changes(&self) -> watch::Receiver<Control> {
        self.0.control.subscribe()
    }

    /// The current record.
    pub fn record(&self) -> ScreenControl {
        record(&self.0.screen, &self.0.control.borrow(), clock::now())
    }

    /// Waits until the number of changes is another one than `after`, at most for `timeout`.
    ///
    /// # Errors
    /// `Unavailable` when too many requests wait.
    pub async fn wait_for_change(&self, after: u64, timeout: Duration) -> Result<ScreenControl> {
        let _permit = self.0.waiters.try_acquire().map_err(|_| {
            Error::unavailable("too many requests wait for a change of the screen's control").retry_after(1)
        })?;
        let mut changes = self.changes();
        // The record tells whether it has changed.
        let _ = tokio::time::timeout(timeout, changes.wait_for(|now| now.revision != after)).await;
        Ok(self.record())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::{KeyId, ThreadId};
    use hotdesk_domain::desktop::screen::takeover::TakeFrom;
    use hotdesk_domain::error_code::ErrorCode;
    use hotdesk_wire::desktop::action::control::ActorName;

    const MINUTE: Duration = Duration::from_secs(60);

    fn lease() -> ControlLease {
        ControlLease::open("default", None, Feed::new())
    }

    #[tokio::test]
    async fn a_taker_waits_for_input_and_later_input_is_refused_at_once() {
        let lease = lease();
        let key = Actor::Key(KeyId::random());
        let input = lease.admit(Some(Actor::Password)).await.unwrap();
        lease.take(key, TakeFrom::Nobody, None, MINUTE).await.unwrap();
        let mut drained = Box::pin(lease.drained());
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut drained).await.is_err());
        let refused = lease.admit(Some(Actor::Password)).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ControlHeld));
        drop(input);
        drop(drained.await);
        drop(lease.admit(Some(key)).await.unwrap());
        assert!(lease.admit(None).await.is_err());
    }

    #[tokio::test]
    async fn a_takeover_waits_for_the_input_of_the_former_holder_which_is_refused_from_then_on() {
        let lease = lease();
        let (thread, key) = (Actor::Thread(ThreadId::random()), Actor::Key(KeyId::random()));
        assert!(lease.take(thread, TakeFrom::Nobody, None, MINUTE).await.unwrap());
        let input = lease.admit(Some(thread)).await.unwrap();
        assert!(lease.take(key, TakeFrom::Nobody, None, MINUTE).await.is_err());
        assert!(lease.take(key, TakeFrom::Programs, None, MINUTE).await.unwrap(), "it was another one's");
        assert_eq!(lease.record().holder, Some(ActorName::from(key)));
        let refused = lease.admit(Some(thread)).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::ControlHeld));
        let mut drained = Box::pin(lease.drained());
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut drained).await.is_err());
        drop(input);
        drop(drained.await);
        assert!(!lease.take(key, TakeFrom::Programs, None, MINUTE).await.unwrap(), "it is its own");
    }

    #[tokio::test]
    async fn the_number_of_those_who_wait_is_bounded() {
        let lease = lease();
        let all = futures_util::future::join_all(
            (0..=MAX_WAITERS).map(|_| lease.wait_for_change(0, Duration::from_millis(50))),
        );
        let refused = all.await.into_iter().filter(Result::is_err).count();
        assert_eq!(refused, 1);
    }
}
