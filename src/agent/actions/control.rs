//! Control of a screen: limits of requests, and the end of the input of others when somebody takes it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ActionRunner;
use crate::display::{AdmittedInput, Screen};
use hotdesk_base::wait;
use hotdesk_domain::desktop::screen::takeover::TakeFrom;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::action::control::{
    AskForHelp, ControlQuery, DEFAULT_HOLD_SECONDS, HandBack, MAX_CONTROL_WAIT_SECONDS, MAX_HELP_SECONDS,
    MAX_HOLD_SECONDS, MAX_NOTE, ScreenControl, TakeControl,
};

/// How long a taker waits for the input of others that began before. Most actions take less; a person should
/// not wait longer for an answer. What lasts longer ends without the taker, and nothing new begins.
const TAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long viewers may take to release the buttons that they hold: each does it at its next turn.
const VIEWERS_TIMEOUT: Duration = Duration::from_millis(500);

impl ActionRunner {
    /// Returns the control of a screen, after the wait that the query asks for.
    ///
    /// # Errors
    /// `NotFound` for an unknown screen; `Invalid` for a longer wait than 30 s; `Unavailable` when too many
    /// requests wait.
    pub async fn control(&self, screen: &str, query: &ControlQuery) -> Result<ScreenControl> {
        let screen = self.displays.screen(Some(screen))?;
        let seconds = query.wait_seconds.unwrap_or(0);
        if seconds > MAX_CONTROL_WAIT_SECONDS {
            return Err(Error::invalid(format!("wait_seconds must be at most {MAX_CONTROL_WAIT_SECONDS}")));
        }
        let Some(after) = query.after.filter(|_| seconds > 0) else { return Ok(screen.control().record()) };
        let (timeout, stopping) = (Duration::from_secs(seconds.into()), self.tasks.stopping());
        tokio::select! {
            changed = screen.control().wait_for_change(after, timeout) => changed,
            () = stopping.cancelled() => Ok(screen.control().record()),
        }
    }

    /// Takes a screen for an actor, if need be from a holder that `from` allows, or renews its time. From
    /// then on no input of others begins. A screen that was free or another one's is answered when the input
    /// of others has ended and all keys and buttons are up, at the latest after 15 s.
    ///
    /// # Errors
    /// `Invalid` without an actor, or for a time or note out of range; `NotFound` for an unknown screen;
    /// `Conflict` (`control_held`) while another one holds it that `from` does not allow; `Unavailable` when
    /// that cannot be stored. Nothing is changed then.
    pub async fn take_control(
        &self,
        by: Option<Actor>,
        screen: &str,
        from: TakeFrom,
        wanted: TakeControl,
    ) -> Result<ScreenControl> {
        let by = by.ok_or_else(|| {
            Error::invalid("the controller names who acts: without a controller nobody can take control")
        })?;
        let seconds = wanted.seconds.unwrap_or(DEFAULT_HOLD_SECONDS);
        let length = length(seconds, MAX_HOLD_SECONDS)?;
        let note = note(wanted.note)?;
        let screen = self.displays.screen(Some(screen))?;
        // A task of its own: keys of others come up also when the taker leaves before the answer.
        let taking = take(screen, by, from, note, length, self.tasks.stopping());
        let taking = self.tasks.spawn("taking of a screen", taking);
        let taken = taking.await.map_err(|error| Error::internal(format!("a task failed: {error}")))?;
        taken.unwrap_or_else(|| Err(Error::internal("the task that takes control panicked")))
    }

    /// Hands a screen back, with a note for the one who acts next; `force` does it for another holder.
    ///
    /// # Errors
    /// `Invalid` for a long note; `NotFound` for an unknown screen; `Conflict` (`control_held`) without
    /// `force` when another one holds it; `Unavailable` when that cannot be stored. Nothing is changed then.
    pub async fn hand_back_control(
        &self,
        by: Option<Actor>,
        screen: &str,
        force: bool,
        wanted: HandBack,
    ) -> Result<ScreenControl> {
        let note = note(wanted.note)?;
        let screen = self.displays.screen(Some(screen))?;
        screen.control().hand_back(by, force, note).await?;
        Ok(screen.control().record())
    }

    /// Asks a person for help.
    ///
    /// # Errors
    /// `Invalid` for a time or message out of range; `NotFound` for an unknown screen; `Conflict` when the
    /// request of another one waits; `Unavailable` when that cannot be stored. Nothing is changed then.
    pub async fn ask_for_help(
        &self,
        by: Option<Actor>,
        screen: &str,
        wanted: AskForHelp,
    ) -> Result<ScreenControl> {
        let length = length(wanted.seconds, MAX_HELP_SECONDS)?;
        if wanted.message.is_empty() || wanted.message.chars().count() > MAX_NOTE {
            return Err(Error::invalid(format!("message must have 1 to {MAX_NOTE} characters")));
        }
        let screen = self.displays.screen(Some(screen))?;
        screen.control().ask(by, wanted.message, length).await?;
        Ok(screen.control().record())
    }

    /// Answers the request for help that waits.
    ///
    /// # Errors
    /// `Invalid` for a long note; `NotFound` for an unknown screen; `Conflict` when no request waits;
    /// `Unavailable` when that cannot be stored. Nothing is changed then.
    pub async fn answer_help(
        &self,
        by: Option<Actor>,
        screen: &str,
        wanted: HandBack,
    ) -> Result<ScreenControl> {
        let note = note(wanted.note)?;
        let screen = self.displays.screen(Some(screen))?;
        screen.control().answer(by, note).await?;
        Ok(screen.control().record())
    }
}

/// Admits an action of an actor until the returned value is dropped; waits and screenshots are always
/// admitted.
///
/// # Errors
/// `Conflict` (`control_held`) for input while another one holds the screen. Nothing was done then.
pub(super) async fn admit<'a>(
    by: Option<Actor>,
    screen: &'a Screen,
    action: &Action,
) -> Result<Option<AdmittedInput<'a>>> {
    if action.options().is_none() {
        return Ok(None);
    }
    screen.control().admit(by).await.map(Some)
}

/// Takes a screen. One that was free or another one's is returned when the input of others has ended.
async fn take(
    screen: Arc<Screen>,
    by: Actor,
    from: TakeFrom,
    note: Option<String>,
    length: Duration,
    stopping: CancellationToken,
) -> Result<ScreenControl> {
    if screen.control().take(by, from, note, length).await? {
        let is_late = tokio::select! {
            ended = tokio::time::timeout(TAKE_TIMEOUT, end_input(&screen)) => ended.is_err(),
            () = stopping.cancelled() => false,
        };
        if is_late {
            tracing::warn!(screen = screen.id, "control was taken while an action of another one goes on");
        }
    }
    Ok(screen.control().record())
}

/// Waits for the end of input that was admitted before, and releases keys and buttons.
async fn end_input(screen: &Screen) {
    // Held until all are up, so that nothing is released that somebody presses from now on.
    let gate = screen.control().drained().await;
    if let Err(error) = screen.release_held_input().await {
        // A screen that is down holds nothing.
        tracing::info!(
            screen = screen.id,
            error = format_args!("{error:#}"),
            "cannot release keys and buttons for the one who took control"
        );
        return;
    }
    drop(gate);
    // Viewers release theirs by themselves. The taker may be one, and keep its button.
    let _ = wait::until(VIEWERS_TIMEOUT, || async {
        let is_up = screen.pointer().await.map_or(true, |pointer| pointer.buttons.is_empty());
        is_up.then_some(())
    })
    .await;
}

fn length(seconds: u32, most: u32) -> Result<Duration> {
    if !(1..=most).contains(&seconds) {
        return Err(Error::invalid(format!("seconds must be 1 to {most}")));
    }
    Ok(Duration::from_secs(seconds.into()))
}

/// An empty note counts as none.
fn note(text: Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.chars().count() > MAX_NOTE => {
            Err(Error::invalid(format!("note must have at most {MAX_NOTE} characters")))
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_notes_are_bounded() {
        assert_eq!(length(1, 60).unwrap(), Duration::from_secs(1));
        assert_eq!(length(60, 60).unwrap(), Duration::from_secs(60));
        for bad in [0, 61, u32::MAX] {
            assert!(length(bad, 60).unwrap_err().message.contains("1 to 60"), "{bad}");
        }
        let longest = "é".repeat(MAX_NOTE);
        assert_eq!(note(Some(longest.clone())).unwrap(), Some(longest.clone()));
        assert!(note(Some(longest + "x")).is_err());
        assert_eq!((note(None).unwrap(), note(Some(String::new())).unwrap()), (None, None));
    }
}
