//! Changes of control: each is stored before it takes effect, and published.

use std::sync::PoisonError;
use std::time::Duration;

use super::{ControlLease, LeaseState};
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::screen::control::{Control, ControlEvent};
use hotdesk_domain::desktop::screen::takeover::TakeFrom;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::event::{Event, EventData};

/// Longest sleep before the clock is read again: a computer that was suspended has another time afterwards.
const CLOCK_CHECK: Duration = Duration::from_secs(5);

/// The event and the value of a change.
type ChangeOutcome<T> = (Option<ControlEvent>, T);

impl ControlLease {
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
        let done = hotdesk_base::tasks::spawn_blocking(move || lease.0.change(rule)).await;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::KeyId;
    use hotdesk_domain::error_code::ErrorCode;
    use hotdesk_http::feed::Feed;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_change_that_cannot_be_stored_does_not_happen() {
        let folder = tempfile::tempdir().unwrap();
        let lost =
            ControlLease::open("default", Some(folder.path().join("missing/control.json")), Feed::new());
        let key = Actor::Key(KeyId::random());
        assert!(lost.take(key, TakeFrom::Nobody, None, MINUTE).await.is_err());
        assert!(lost.check(None).is_ok() && lost.record().revision == 0);
    }

    #[tokio::test]
    async fn the_end_of_the_time_wakes_those_who_wait() {
        let lease = ControlLease::open("default", None, Feed::new());
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
}
