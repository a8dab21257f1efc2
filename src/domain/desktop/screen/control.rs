//! Control of a screen: who may act on it, for how long, and requests for help.
//!
//! ```text
//!            +-- take by the holder (renewed), or by one who may take it over --+
//!            v                                                                 |
//!   free -- take --> held -----------------------------------------------------+
//!    ^                |
//!    +-- hand_back ---+-- its time is over
//! ```
//! Who may take a held screen over is in [`super::takeover`]. A request for help is independent of that. It
//! waits until somebody answers it or hands the screen back, or until its time is over.

use std::time::Duration;

use super::takeover::TakeFrom;
use crate::error::{Error, Field, Result};
use crate::error_code::ErrorCode;
use crate::identity::access::actor::Actor;
use hotdesk_base::time::UnixMillis;

/// Longest `Retry-After` of a refusal, in seconds. Most holders hand back long before their time is over.
const MAX_RETRY_SECONDS: u32 = 30;

/// The control that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who holds it.
    pub by: Actor,
    /// What others are told.
    pub note: Option<String>,
    /// When it was taken; a renewal does not change it.
    pub since: UnixMillis,
    /// When it ends by itself.
    pub until: UnixMillis,
}

/// A request for help that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// Who asks; `None` when the agent is used without a controller.
    pub by: Option<Actor>,
    /// What is needed.
    pub message: String,
    /// When it was asked.
    pub since: UnixMillis,
    /// When it ends by itself.
    pub until: UnixMillis,
}

/// The end of a hold or of a request for help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlEnd {
    /// Who handed back or answered; `None` when the time was over.
    pub by: Option<Actor>,
    /// The note for the one who acts next.
    pub note: Option<String>,
    /// When it ended.
    pub at: UnixMillis,
}

/// A change that listeners are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// Another one holds the screen, nobody does, or a request for help has ended.
    Changed {
        /// Who holds it now.
        holder: Option<Actor>,
        /// The holder's note, or that of the hand-back or answer.
        note: Option<String>,
    },
    /// Somebody asks for help.
    HelpRequested {
        /// What is needed.
        message: String,
        /// Who asks.
        by: Option<Actor>,
    },
}

/// Control of one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Number of changes so far.
    pub revision: u64,
    /// The current hold; it may have ended, see [`Control::hold_at`].
    pub hold: Option<Hold>,
    /// The request for help that waits; it may have ended.
    pub help: Option<Help>,
    /// The last end of a hold or of a request for help.
    pub last: Option<ControlEnd>,
}

impl Control {
    /// Returns the hold at a time; `None` when everybody with access may act.
    pub fn hold_at(&self, now: UnixMillis) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    /// Returns the request for help that waits at a time.
    pub fn help_at(&self, now: UnixMillis) -> Option<&Help> {
        self.help.as_ref().filter(|help| help.until > now)
    }

    /// Returns the next time at which something ends by itself.
    pub fn next_end(&self) -> Option<UnixMillis> {
        let ends = [self.hold.as_ref().map(|hold| hold.until), self.help.as_ref().map(|help| help.until)];
        ends.into_iter().flatten().min()
    }

    /// Checks that an actor may act on the screen with this id. One who is not named may act only while
    /// nobody holds it.
    ///
    /// # Errors
    /// `Conflict` (`control_held`) with the fields `holder` and `expires_at` while somebody else holds it.
    pub fn check(&self, screen: &str, actor: Option<Actor>, now: UnixMillis) -> Result<()> {
        match self.hold_at(now) {
            Some(hold) if actor != Some(hold.by) => Err(held(screen, hold, now)),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends what is over at a time. Returns the event, if anything ended.
    pub fn expire(&mut self, now: UnixMillis) -> Option<ControlEvent> {
        let is_over = self.next_end().is_some_and(|end| end <= now);
        if !is_over {
            return None;
        }
        self.hold = self.hold.take().filter(|hold| hold.until > now);
        self.help = self.help.take().filter(|help| help.until > now);
        self.revision += 1;
        self.last = Some(ControlEnd { by: None, note: None, at: now });
        Some(self.changed(None))
    }

    /// Takes the screen for a time, or renews the holder's time. A holder that `from` allows loses it in the
    /// same step; a request for help goes on to wait. Returns the event; a renewal with the same note has
    /// none.
    ///
    /// # Errors
    /// Those of [`Control::check`], for a holder that `from` does not allow. Nothing is changed then.
    pub fn take(
        &mut self,
        screen: &str,
        by: Actor,
        from: TakeFrom,
        note: Option<String>,
        length: Duration,
        now: UnixMillis,
    ) -> Result<Option<ControlEvent>> {
        if self.hold_at(now).is_none_or(|hold| !from.allows(hold.by)) {
            self.check(screen, Some(by), now)?;
        }
        let until = now.plus(length);
        self.revision += 1;
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.until > now && hold.by == by) {
            // A renewal without a note keeps the last one.
            let is_told = note.as_ref().is_some_and(|note| hold.note.as_ref() != Some(note));
            hold.note = note.or_else(|| hold.note.take());
            hold.until = until;
            let note = hold.note.clone();
            return Ok(is_told.then(|| self.changed(note)));
        }
        self.hold = Some(Hold { by, note: note.clone(), since: now, until });
        Ok(Some(self.changed(note)))
    }

    /// Hands the screen back, with a note for the one who acts next. A request for help that waits is
    /// answered with it. While nobody holds the screen, only the note and the answer remain; without both
    /// nothing changes. `force` hands back for another holder.
    ///
    /// # Errors
    /// Those of [`Control::check`], without `force`. Nothing is changed then.
    pub fn hand_back(
        &mut self,
        screen: &str,
        by: Option<Actor>,
        force: bool,
        note: Option<String>,
        now: UnixMillis,
    ) -> Result<Option<ControlEvent>> {
        if !force {
            self.check(screen, by, now)?;
        }
        if self.hold_at(now).is_none() && self.help_at(now).is_none() && note.is_none() {
            return Ok(None);
        }
        self.hold = None;
        Ok(Some(self.end_help(by, note, now)))
    }

    /// Asks for help. The same asker's request that waits already is replaced.
    ///
    /// # Errors
    /// `Conflict` when a request of another one waits. Nothing is changed then.
    pub fn ask(
        &mut self,
        by: Option<Actor>,
        message: String,
        length: Duration,
        now: UnixMillis,
    ) -> Result<ControlEvent> {
        if self.help_at(now).is_some_and(|help| help.by != by) {
            return Err(Error::conflict("Another request for help waits on this screen: answer it first"));
        }
        self.revision += 1;
        self.help = Some(Help { by, message: message.clone(), since: now, until: now.plus(length) });
        Ok(ControlEvent::HelpRequested { message, by })
    }

    /// Answers the request for help that waits. The hold stays.
    ///
    /// # Errors
    /// `Conflict` when none waits. Nothing is changed then.
    pub fn answer(
        &mut self,
        by: Option<Actor>,
        note: Option<String>,
        now: UnixMillis,
    ) -> Result<ControlEvent> {
        if self.help_at(now).is_none() {
            return Err(Error::conflict("No request for help waits on this screen"));
        }
        Ok(self.end_help(by, note, now))
    }

    /// Forgets everything but the number of changes, because it belongs to another computer.
    pub fn clear(&mut self) -> ControlEvent {
        *self = Self { revision: self.revision + 1, ..Self::default() };
        self.changed(None)
    }

    fn end_help(&mut self, by: Option<Actor>, note: Option<String>, now: UnixMillis) -> ControlEvent {
        self.revision += 1;
        self.help = None;
        self.last = Some(ControlEnd { by, note: note.clone(), at: now });
        self.changed(note)
    }

    fn changed(&self, note: Option<String>) -> ControlEvent {
        ControlEvent::Changed { holder: self.hold.as_ref().map(|hold| hold.by), note }
    }
}

/// `Conflict` (`control_held`): somebody else holds the screen.
fn held(screen: &str, hold: &Hold, now: UnixMillis) -> Error {
    let mut holder = vec![("kind", Field::Text(hold.by.kind().to_owned()))];
    holder.extend(hold.by.id().map(|id| ("id", Field::Text(id))));
    let left = hold.until.since(now).unwrap_or_default().as_secs();
    let retry = u32::try_from(left).unwrap_or(u32::MAX).saturating_add(1).min(MAX_RETRY_SECONDS);
    let until = hold.until.iso8601();
    Error::conflict(format!(
        "Somebody else ({}) holds the screen {screen} until {until}: wait for the hand-back",
        hold.by.kind()
    ))
    .code(ErrorCode::ControlHeld)
    .field("holder", Field::Object(holder))
    .text("expires_at", until)
    .retry_after(retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::{AccountId, KeyId, ThreadId};

    const START: UnixMillis = UnixMillis::new(1_700_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> UnixMillis {
        START.plus(Duration::from_secs(seconds))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    /// A person, a key and a thread.
    fn actors() -> [Actor; 3] {
        [Actor::Person(AccountId::random()), Actor::Key(KeyId::random()), Actor::Thread(ThreadId::random())]
    }

    #[test]
    fn only_the_holder_acts_until_its_time_is_over() {
        let [person, key, thread] = actors();
        let mut control = Control::default();
        for actor in [Some(person), Some(key), Some(Actor::Password), None] {
            assert!(control.check("default", actor, START).is_ok(), "{actor:?}");
        }
        let event =
            control.take("default", person, TakeFrom::Nobody, some("I sign in"), MINUTE, START).unwrap();
        assert_eq!(event, Some(ControlEvent::Changed { holder: Some(person), note: some("I sign in") }));
        for (actor, seconds, admitted) in [
            (Some(person), 0, true),
            (Some(person), 59, true),
            (Some(key), 0, false),
            (Some(key), 59, false),
            (Some(thread), 1, false),
            (Some(Actor::Person(AccountId::random())), 1, false),
            (Some(Actor::Password), 1, false),
            (Some(Actor::Template), 1, false),
            // Nobody named: refused, because it may be anybody.
            (None, 1, false),
            (Some(key), 60, true),
            (None, 60, true),
        ] {
            let checked = control.check("default", actor, at(seconds));
            assert_eq!(checked.is_ok(), admitted, "{actor:?} after {seconds} s");
        }
    }

    #[test]
    fn a_refusal_names_the_holder_and_the_end() {
        let [person, key, _] = actors();
        let mut control = Control::default();
        control.take("default", person, TakeFrom::Nobody, None, MINUTE, START).unwrap();
        let error = control.check("default", Some(key), at(50)).unwrap_err();
        assert_eq!((error.code, error.retry_after), (Some(ErrorCode::ControlHeld), Some(11)));
        let holder = vec![
            ("kind", Field::Text("person".to_owned())),
            ("id", Field::Text(person.id().expect("an id"))),
        ];
        let fields = [("holder", Field::Object(holder)), ("expires_at", Field::Text(at(60).iso8601()))];
        assert_eq!(error.fields, fields);
        assert!(error.message.contains("default"), "{}", error.message);
        control.hand_back("default", Some(person), false, None, at(50)).unwrap();
        control.take("default", Actor::Password, TakeFrom::Nobody, None, MINUTE * 60, at(50)).unwrap();
        let error = control.check("default", Some(key), at(50)).unwrap_err();
        assert_eq!(error.retry_after, Some(MAX_RETRY_SECONDS));
        assert_eq!(error.fields[0].1, Field::Object(vec![("kind", Field::Text("password".to_owned()))]));
    }

    #[test]
    fn the_holder_renews_and_others_cannot_take() {
        let [person, key, _] = actors();
        let mut control = Control::default();
        control.take("default", person, TakeFrom::Nobody, some("a"), MINUTE, START).unwrap();
        assert_eq!(control.take("default", person, TakeFrom::Nobody, None, MINUTE, at(30)).unwrap(), None);
        let hold = control.hold.clone().expect("a hold");
        assert_eq!((hold.note, hold.since, hold.until, control.revision), (some("a"), START, at(90), 2));
        // A shorter time is taken as well.
        control.take("default", person, TakeFrom::Nobody, None, Duration::from_secs(5), at(31)).unwrap();
        assert_eq!(control.next_end(), Some(at(36)));
        let told = control.take("default", person, TakeFrom::Nobody, some("b"), MINUTE, at(32)).unwrap();
        assert_eq!(told, Some(ControlEvent::Changed { holder: Some(person), note: some("b") }));
        let before = control.clone();
        let refused =
            control.take("default", key, TakeFrom::Nobody, some("mine"), MINUTE, at(91)).unwrap_err();
        assert_eq!((refused.code, &control), (Some(ErrorCode::ControlHeld), &before));
        // Its time is over, so everybody may take it.
        assert!(control.take("default", key, TakeFrom::Nobody, None, MINUTE, at(92)).unwrap().is_some());
        assert_eq!(control.hold.as_ref().map(|hold| (hold.by, hold.since)), Some((key, at(92))));
    }

    #[test]
    fn a_held_screen_is_taken_over_in_one_step() {
        let [person, key, thread] = actors();
        let mut control = Control::default();
        control.take("default", thread, TakeFrom::Nobody, some("I order"), MINUTE, START).unwrap();
        control.ask(Some(thread), "a code".to_owned(), MINUTE * 2, START).unwrap();
        let before = control.clone();
        let refused = control.take("default", key, TakeFrom::Nobody, None, MINUTE, at(1)).unwrap_err();
        assert_eq!((refused.code, &control), (Some(ErrorCode::ControlHeld), &before));
        let event = control.take("default", person, TakeFrom::Programs, some("mine"), MINUTE, at(2)).unwrap();
        assert_eq!(event, Some(ControlEvent::Changed { holder: Some(person), note: some("mine") }));
        let hold = Hold { by: person, note: some("mine"), since: at(2), until: at(62) };
        // Who takes over may be the one who helps, and nobody has handed anything back.
        let expected = Control { revision: before.revision + 1, hold: Some(hold), ..before };
        assert_eq!(control, expected);
        assert_eq!(
            control.check("default", Some(thread), at(3)).unwrap_err().code,
            Some(ErrorCode::ControlHeld)
        );
        // Its own screen is renewed.
        assert_eq!(control.take("default", person, TakeFrom::Programs, None, MINUTE, at(30)).unwrap(), None);
        assert_eq!(control.hold.as_ref().map(|hold| (hold.since, hold.until)), Some((at(2), at(90))));
        // The holder's note is not the next one's.
        let before = control.clone();
        assert!(control.take("default", key, TakeFrom::Programs, None, MINUTE, at(31)).is_err());
        assert_eq!(control, before);
        let event = control.take("default", key, TakeFrom::Anybody, None, MINUTE, at(31)).unwrap();
        assert_eq!(event, Some(ControlEvent::Changed { holder: Some(key), note: None }));
        assert_eq!(control.hold.map(|hold| (hold.by, hold.note, hold.since)), Some((key, None, at(31))));
    }

    #[test]
    fn a_hand_back_is_of_the_holder_unless_it_is_forced() {
        let [person, key, thread] = actors();
        let mut control = Control::default();
        control.take("default", person, TakeFrom::Nobody, None, MINUTE, START).unwrap();
        for other in [Some(key), Some(thread), None] {
            let before = control.clone();
            let refused = control.hand_back("default", other, false, some("x"), at(1)).unwrap_err();
            assert_eq!((refused.code, &control), (Some(ErrorCode::ControlHeld), &before));
        }
        let event = control.hand_back("default", Some(person), false, some("done"), at(2)).unwrap();
        assert_eq!(event, Some(ControlEvent::Changed { holder: None, note: some("done") }));
        assert_eq!(control.last, Some(ControlEnd { by: Some(person), note: some("done"), at: at(2) }));
        control.take("default", person, TakeFrom::Nobody, None, MINUTE, at(3)).unwrap();
        control.hand_back("default", Some(key), true, None, at(4)).unwrap();
        assert_eq!(
            (control.hold.as_ref(), control.last.as_ref().and_then(|last| last.by)),
            (None, Some(key))
        );
    }

    #[test]
    fn a_hand_back_of_a_free_screen_leaves_its_note_alone() {
        let [person, ..] = actors();
        let mut control = Control::default();
        assert_eq!(control.hand_back("default", Some(person), false, None, START).unwrap(), None);
        assert_eq!(control, Control::default());
        let event = control.hand_back("default", Some(person), false, some("late"), at(1)).unwrap();
        assert_eq!(event, Some(ControlEvent::Changed { holder: None, note: some("late") }));
        assert_eq!((control.revision, control.last.and_then(|last| last.note)), (1, some("late")));
    }

    #[test]
    fn what_is_over_ends_once() {
        let [person, _, thread] = actors();
        let mut control = Control::default();
        assert_eq!((control.expire(at(9999)), control.next_end()), (None, None));
        control.take("default", person, TakeFrom::Nobody, None, MINUTE, START).unwrap();
        control.ask(Some(thread), "a code".to_owned(), MINUTE * 2, START).unwrap();
        assert_eq!((control.next_end(), control.expire(at(59))), (Some(at(60)), None));
        let over = Some(ControlEvent::Changed { holder: None, note: None });
        assert_eq!((control.expire(at(60)), control.revision), (over.clone(), 3));
        assert_eq!(control.last, Some(ControlEnd { by: None, note: None, at: at(60) }));
        assert!(control.help_at(at(60)).is_some() && control.help_at(at(120)).is_none());
        assert_eq!((control.expire(at(61)), control.next_end()), (None, Some(at(120))));
        assert_eq!((control.expire(at(500)), control.expire(at(500)), control.help), (over, None, None));
    }

    #[test]
    fn help_is_answered_by_a_note_or_by_a_hand_back() {
        let [person, key, thread] = actors();
        let mut control = Control::default();
        let event = control.ask(Some(thread), "a code".to_owned(), MINUTE, START).unwrap();
        let asked = ControlEvent::HelpRequested { message: "a code".to_owned(), by: Some(thread) };
        assert_eq!(event, asked);
        // Help refuses nobody.
        assert!(control.check("default", Some(key), at(1)).is_ok());
        assert!(control.ask(Some(key), "mine".to_owned(), MINUTE, at(1)).is_err());
        control.ask(Some(thread), "another code".to_owned(), MINUTE, at(1)).unwrap();
        assert_eq!(control.help.as_ref().map(|help| help.message.as_str()), Some("another code"));
        let event = control.answer(Some(person), some("1234"), at(2)).unwrap();
        assert_eq!(event, ControlEvent::Changed { holder: None, note: some("1234") });
        assert_eq!((&control.help, control.revision), (&None, 3));
        assert!(control.answer(Some(person), None, at(3)).is_err(), "it is answered");
        control.take("default", person, TakeFrom::Nobody, None, MINUTE, at(4)).unwrap();
        control.ask(Some(thread), "again".to_owned(), MINUTE, at(4)).unwrap();
        let event = control.answer(Some(key), None, at(5)).unwrap();
        assert_eq!(event, ControlEvent::Changed { holder: Some(person), note: None });
        control.ask(Some(thread), "again".to_owned(), MINUTE, at(6)).unwrap();
        control.hand_back("default", Some(person), false, some("signed in"), at(7)).unwrap();
        assert_eq!((&control.help, control.last.and_then(|last| last.note)), (&None, some("signed in")));
        let mut late = Control::default();
        late.ask(None, "a code".to_owned(), MINUTE, START).unwrap();
        assert!(late.answer(Some(person), None, at(60)).is_err(), "its time is over");
    }

    #[test]
    fn a_copy_is_free_and_counts_on() {
        let [person, _, thread] = actors();
        let mut control = Control::default();
        control.take("default", person, TakeFrom::Nobody, some("private"), MINUTE, START).unwrap();
        control.ask(Some(thread), "a code".to_owned(), MINUTE, START).unwrap();
        assert_eq!(control.clear(), ControlEvent::Changed { holder: None, note: None });
        assert_eq!(control, Control { revision: 3, ..Control::default() });
    }
}
