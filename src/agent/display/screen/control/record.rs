//! Record of a screen's control, for clients and for the file that outlives the agent.

use std::fs;
use std::io;
use std::path::Path;

use super::LeaseState;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::screen::control::{Control, ControlEnd, Help, Hold};
use hotdesk_wire::desktop::action::control::{ActorName, HelpRequest, LastHandBack, ScreenControl};

impl LeaseState {
    /// Writes the file, whole or not at all.
    pub(super) fn store(&self, control: &Control, now: UnixMillis) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let unfinished = file.with_extension("new");
        fs::write(&unfinished, serde_json::to_vec(&record(&self.screen, control, now))?)?;
        fs::rename(&unfinished, file)
    }
}

/// Reads the control that an earlier agent stored. One that cannot be read is logged and dropped.
pub(super) fn stored(file: &Path) -> Option<Control> {
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
pub(super) fn record(screen: &str, control: &Control, now: UnixMillis) -> ScreenControl {
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
    use std::time::Duration;

    use super::super::ControlLease;
    use super::*;
    use hotdesk_base::ids::{KeyId, ThreadId};
    use hotdesk_domain::desktop::screen::takeover::TakeFrom;
    use hotdesk_domain::error_code::ErrorCode;
    use hotdesk_domain::identity::access::actor::Actor;
    use hotdesk_http::feed::Feed;

    const MINUTE: Duration = Duration::from_secs(60);

    fn lease(file: &Path) -> ControlLease {
        ControlLease::open("default", Some(file.to_owned()), Feed::new())
    }

    #[tokio::test]
    async fn what_was_acknowledged_outlives_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control.json");
        let (key, thread) = (Actor::Key(KeyId::random()), Actor::Thread(ThreadId::random()));
        let first = lease(&file);
        assert!(
            first.take(key, TakeFrom::Nobody, Some("mine".to_owned()), MINUTE).await.unwrap(),
            "it was free"
        );
        first.ask(Some(thread), "a code".to_owned(), MINUTE).await.unwrap();
        let second = lease(&file);
        assert_eq!(second.record(), first.record());
        assert_eq!(second.check(Some(thread)).unwrap_err().code, Some(ErrorCode::ControlHeld));
        assert!(second.check(Some(key)).is_ok());
        second.hand_back(Some(key), false, Some("done".to_owned())).await.unwrap();
        let third = lease(&file);
        assert_eq!(third.record(), second.record());
        assert!(third.record().holder.is_none() && third.record().help.is_none());
        // What is over is dropped.
        third.take(key, TakeFrom::Nobody, None, Duration::from_millis(1)).await.unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let fourth = lease(&file);
        assert!(fourth.record().holder.is_none() && fourth.check(None).is_ok());
        fourth.clear().unwrap();
        assert_eq!(lease(&file).record().last_hand_back, None);
        fs::write(&file, "{}").unwrap();
        assert_eq!(lease(&file).record().revision, 0);
    }
}
