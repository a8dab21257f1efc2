//! Control of one screen: its state, the file that outlives the agent, and the gate that input passes.
//!
//! ```text
//! input:    check -> gate (shared) -> check -> act
//! a taker:  change of the state -> gate (alone): input that began before has ended
//! ```
//! Lock order: the screen's turn, then the gate. The rules are in
//! [`hotdesk_domain::desktop::screen::control`].

use std::fs;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, watch};

use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::screen::control::{Control, ControlEnd, ControlEvent, Help, Hold};
use hotdesk_domain::desktop::screen::takeover::TakeFrom;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::action::control::{ActorName, HelpRequest, LastHandBack, ScreenControl};
use hotdesk_wire::desktop::event::{Event, EventData};

/// Most requests that wait for a change of one screen's control: viewers, runs and scripts of one computer
/// stay far below.
const MAX_WAITERS: usize = 64;
/// Longest sleep before the clock is read again: a computer that was suspended has another time afterwards.
const CLOCK_CHECK: Duration = Duration::from_secs(5);

/// The event and the value of a change.
type ChangeOutcome<T> = (Option<ControlEvent>, T);

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

    /// Takes the screen, if need be from a holder that `from` allows, or renews the holder's time; returns
    /// whether somebody else could act on it before.
    ///
    /// # Errors
    /// Those of [`ControlLease::check`], for a holder that `from` does not allow; `Unavailable` when the
    /// change cannot be stored. Nothing is changed then.
    pub async fn take(
        &self,
        by: Actor,
        from: TakeFrom,
        note: Option<String>,
        length: Duration,
    ) -> Result<bool> {
        self.change(move |screen, control, now| {
            let is_new = control.hold_at(now).is_none_or(|hold| hold.by != by);
            let event = control.take(screen, by, from, note, length, now)?;
            Ok((event, is_new))
        })
        .await
    }

    /// Hands the screen back; `force` does it for another holder.
    ///
    /// # Errors
    /// Those of [`ControlLease::take`], without `force` for another holder.
    pub async fn hand_back(&self, by: Option<Actor>, force: bool, note: Option<String>) -> Result<()> {
        self.change(move |screen, control, now| {
            let event = control.hand_back(screen, by, force, note, now)?;
            Ok((event, ()))
        })
        .await
    }

    /// Asks for help for a time.
    ///
    /// # Errors
    /// `Conflict` when another one's request waits; `Unavailable` when the change cannot be stored.
    pub async fn ask(&self, by: Option<Actor>, message: String, length: Duration) -> Result<()> {
        self.change(move |_, control, now| {
            let event = control.ask(by, message, length, now)?;
            Ok((Some(event), ()))
        })
        .await
    }

    /// Answers the request for help.
    ///
    /// # Errors
    /// `Conflict` when none waits; `Unavailable` when the change cannot be stored.
    pub async fn answer(&self, by: Option<Actor>, note: Option<String>) -> Result<()> {
        self.change(move |_, control, now| {
            let event = control.answer(by, note, now)?;
            Ok((Some(event), ()))
        })
        .await
    }

    /// Forgets the holder, the request for help and the notes: they are of the computer that this one is a
    /// copy of. Blocks while it writes a file.
    ///
    /// # Errors
    /// `Unavailable` when the change cannot be stored. Nothing is changed then.
    pub(in crate::display) fn clear(&self) -> Result<()> {
        self.0.change(|_, control, _| Ok((Some(control.clear()), ())))
    }

    /// Ends what is over, at its time. It returns only after a failure, which it logs; requests still see
    /// what is over then.
    pub(in crate::display) async fn end_in_time(&self) {
        let mut changes = self.changes();
        loop {
            let end = changes.borrow_and_update().next_end();
            let Some(end) = end else {
                if changes.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let left = end.since(clock::now()).unwrap_or_default().min(CLOCK_CHECK);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(left) => {
                    // Every change first ends what is over.
                    if let Err(error) = self.change(|_, _, _| Ok((None, ()))).await {
                        tracing::error!(
                            screen = self.0.screen,
                            error = format_args!("{error:#}"),
                            "cannot end the control of a screen"
                        );
                        return;
                    }
                }
            }
        }
    }

    async fn change<T: Send + 'static>(
        &self,
        rule: impl FnOnce(&str, &mut Control, UnixMillis) -> Result<ChangeOutcome<T>> + Send + 'static,
    ) -> Result<T> {
        let lease = self.clone();
        let done = tokio::task::spawn_blocking(move || lease.0.change(rule)).await;
        done.map_err(|error| Error::internal(format!("a change of a screen's control panicked: {error}")))?
    }
}

impl LeaseState {
    /// Ends what is over, then applies a rule. A change is stored before it takes effect.
    fn change<T>(
        &self,
        rule: impl FnOnce(&str, &mut Control, UnixMillis) -> Result<ChangeOutcome<T>>,
    ) -> Result<T> {
        let _one = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        let mut next = self.control.borrow().clone();
        if let Some(event) = next.expire(now) {
            // The file may keep what is over: whoever reads it drops that.
            if let Err(error) = self.store(&next, now) {
                tracing::warn!(screen = self.screen, %error, "cannot store the end of a screen's control");
            }
            self.commit(next.clone(), Some(event));
        }
        let before = next.revision;
        let (event, value) = rule(&self.screen, &mut next, now)?;
        if next.revision != before {
            self.store(&next, now).map_err(|error| {
                Error::unavailable("Cannot store who controls the screen; nothing was done").context(error)
            })?;
            self.commit(next, event);
        }
        Ok(value)
    }

    fn commit(&self, next: Control, event: Option<ControlEvent>) {
        self.control.send_replace(next);
        let screen = self.screen.clone();
        let data = match event {
            None => return,
            Some(ControlEvent::Changed { holder, note }) => {
                EventData::ControlChanged { screen, holder: holder.map(|holder| holder.to_string()), note }
            }
            Some(ControlEvent::HelpRequested { message, by }) => {
                EventData::HelpRequested { screen, message, by: by.map(|by| by.to_string()) }
            }
        };
        self.feed.publish(Event::now(data));
    }

    /// Writes the file, whole or not at all.
    fn store(&self, control: &Control, now: UnixMillis) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let unfinished = file.with_extension("new");
        fs::write(&unfinished, serde_json::to_vec(&record(&self.screen, control, now))?)?;
        fs::rename(&unfinished, file)
    }
}

/// Reads the control that an earlier agent stored. One that cannot be read is logged and dropped.
fn stored(file: &Path) -> Option<Control> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::error!(file = %file.display(), %error, "cannot read who controls the screen");
            return None;
        }
    };
    let control = serde_json::from_slice(&bytes).ok().and_then(restored);
    if control.is_none() {
        tracing::error!(file = %file.display(), "the file of a screen's control is invalid");
    }
    control
}

/// The record at a time, for clients and for the file.
fn record(screen: &str, control: &Control, now: UnixMillis) -> ScreenControl {
    let hold = control.hold_at(now);
    ScreenControl {
        screen: screen.to_owned(),
        revision: control.revision,
        holder: hold.map(|hold| ActorName::from(hold.by)),
        note: hold.and_then(|hold| hold.note.clone()),
        since: hold.map(|hold| hold.since.iso8601()),
        expires_at: hold.map(|hold| hold.until.iso8601()),
        help: control.help_at(now).map(|help| HelpRequest {
            message: help.message.clone(),
            by: help.by.map(ActorName::from),
            since: help.since.iso8601(),
            expires_at: help.until.iso8601(),
        }),
        last_hand_back: control.last.as_ref().map(|last| LastHandBack {
            by: last.by.map(ActorName::from),
            note: last.note.clone(),
            at: last.at.iso8601(),
        }),
    }
}

/// The state of a record; `None` when it names no actor or time where it must.
fn restored(record: ScreenControl) -> Option<Control> {
    let time = UnixMillis::parse_iso8601;
    let actor = |name: Option<ActorName>| match name {
        Some(name) => name.actor().map(Some),
        None => Some(None),
    };
    let hold = match record.holder {
        Some(holder) => Some(Hold {
            by: holder.actor()?,
            note: record.note,
            since: time(record.since.as_deref()?)?,
            until: time(record.expires_at.as_deref()?)?,
        }),
        None => None,
    };
    let help = match record.help {
        Some(help) => Some(Help {
            by: actor(help.by)?,
            message: help.message,
            since: time(&help.since)?,
            until: time(&help.expires_at)?,
        }),
        None => None,
    };
    let last = match record.last_hand_back {
        Some(last) => Some(ControlEnd { by: actor(last.by)?, note: last.note, at: time(&last.at)? }),
        None => None,
    };
    Some(Control { revision: record.revision, hold, help, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::{KeyId, ThreadId};
    use hotdesk_domain::error_code::ErrorCode;

    const MINUTE: Duration = Duration::from_secs(60);

    fn lease(file: Option<&Path>) -> ControlLease {
        ControlLease::open("default", file.map(Path::to_owned), Feed::new())
    }

    #[tokio::test]
    async fn what_was_acknowledged_outlives_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control.json");
        let (key, thread) = (Actor::Key(KeyId::random()), Actor::Thread(ThreadId::random()));
        let first = lease(Some(&file));
        assert!(
            first.take(key, TakeFrom::Nobody, Some("mine".to_owned()), MINUTE).await.unwrap(),
            "it was free"
        );
        first.ask(Some(thread), "a code".to_owned(), MINUTE).await.unwrap();
        let second = lease(Some(&file));
        assert_eq!(second.record(), first.record());
        assert_eq!(second.check(Some(thread)).unwrap_err().code, Some(ErrorCode::ControlHeld));
        assert!(second.check(Some(key)).is_ok());
        second.hand_back(Some(key), false, Some("done".to_owned())).await.unwrap();
        let third = lease(Some(&file));
        assert_eq!(third.record(), second.record());
        assert!(third.record().holder.is_none() && third.record().help.is_none());
        // What is over is dropped.
        third.take(key, TakeFrom::Nobody, None, Duration::from_millis(1)).await.unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let fourth = lease(Some(&file));
        assert!(fourth.record().holder.is_none() && fourth.check(None).is_ok());
        fourth.clear().unwrap();
        assert_eq!(lease(Some(&file)).record().last_hand_back, None);
        fs::write(&file, "{}").unwrap();
        assert_eq!(lease(Some(&file)).record().revision, 0);
    }

    #[tokio::test]
    async fn a_change_that_cannot_be_stored_does_not_happen() {
        let folder = tempfile::tempdir().unwrap();
        let lost = lease(Some(&folder.path().join("missing/control.json")));
        let key = Actor::Key(KeyId::random());
        assert!(lost.take(key, TakeFrom::Nobody, None, MINUTE).await.is_err());
        assert!(lost.check(None).is_ok() && lost.record().revision == 0);
    }

    #[tokio::test]
    async fn a_taker_waits_for_input_and_later_input_is_refused_at_once() {
        let lease = lease(None);
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
        let lease = lease(None);
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
    async fn the_end_of_the_time_wakes_those_who_wait() {
        let lease = lease(None);
        let key = Actor::Key(KeyId::random());
        let timer = lease.clone();
        let waiting = async {
            lease.take(key, TakeFrom::Nobody, None, Duration::from_millis(30)).await.unwrap();
            let revision = lease.record().revision;
            lease.wait_for_change(revision, MINUTE).await.unwrap()
        };
        let ended = tokio::select! {
            ended = waiting => ended,
            () = timer.end_in_time() => panic!("the timer ended"),
        };
        assert!(ended.holder.is_none() && ended.last_hand_back.is_some_and(|last| last.by.is_none()));
        let taken = async { lease.take(key, TakeFrom::Nobody, None, MINUTE).await.unwrap() };
        let (refusal, _) = tokio::join!(lease.refusal(Some(Actor::Template)), taken);
        assert_eq!(refusal.code, Some(ErrorCode::ControlHeld));
        let answered = lease.wait_for_change(u64::MAX, MINUTE).await;
        assert!(answered.is_ok(), "it is another number already");
    }

    #[tokio::test]
    async fn the_number_of_those_who_wait_is_bounded() {
        let lease = lease(None);
        let all = futures_util::future::join_all(
            (0..=MAX_WAITERS).map(|_| lease.wait_for_change(0, Duration::from_millis(50))),
        );
        let refused = all.await.into_iter().filter(Result::is_err).count();
        assert_eq!(refused, 1);
    }
}
