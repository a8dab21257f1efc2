//! Waits of a run for people: until a held screen is free, and for help.
//!
//! ```text
//! refused call -> who holds the screen? -- nobody any more --------> result with the note and a new picture
//!                    |          ^  changed: tells the client
//!                    | somebody | long poll (the end of the run drops it)
//!                    '----------'-- time is over ----------------> the run ends
//! ```

use std::time::{Duration, Instant};

use super::Run;
use super::steps::{AfterStep, CHANGED};
use crate::chat::runs::executor::{CallResult, ControlView, HelpAsked, HelpState, handed_back, help_ended};
use crate::chat::runs::outcome::EndReason;
use crate::chat::runs::reporter::RunEvent;
use hotdesk_domain::error::Result;
use hotdesk_wire::chat::completion::RunProgress;
use hotdesk_wire::desktop::action::control::ActorName;

/// Most requests for help in a run: a model that needs more does not work alone.
const MAX_HELP_REQUESTS: u32 = 10;
/// Value of `waiting_for` while somebody else controls the screen.
const CONTROL: &str = "control";
/// Value of `waiting_for` while the model waits for help.
const HELP: &str = "help";
/// Result of a call that was refused until the end of the wait.
const HELD: &str = "This call was refused: somebody else controlled the screen, and the run ended before it \
                    was free again. Nothing of the call was done, or only its beginning.";

impl Run {
    /// Waits until a screen that somebody else holds is free again, as long as the request allows. The result
    /// is that of the refused call.
    ///
    /// # Errors
    /// Those of [`Executor::control`](crate::chat::runs::executor::Executor::control).
    pub(super) async fn wait_for_control(&mut self) -> Result<(CallResult, AfterStep)> {
        let most = self.plan.limits.control_wait;
        let started = Instant::now();
        let (mut holder, mut after) = (None::<ActorName>, None);
        let free = loop {
            let left = most.saturating_sub(started.elapsed());
            if let Some(now) = self.parts.executor.control(after, left).await? {
                after = Some(now.revision);
                if now.holder.is_none() {
                    break Some(now);
                }
                if now.holder != holder {
                    holder = now.holder;
                    let waiting_for = Some(CONTROL.to_owned());
                    self.tell(RunProgress { waiting_for, holder: holder.clone(), message: None }).await;
                }
            }
            if started.elapsed() >= most {
                break None;
            }
        };
        let Some(now) = free else {
            self.tell_end().await;
            return Ok((CallResult::failed(HELD), AfterStep::End(EndReason::ControlHeld)));
        };
        if holder.is_some() {
            self.tell_end().await;
        }
        let mut result = handed_back(holder.as_ref(), &now);
        self.parts.executor.show(&mut result).await?;
        Ok((result, AfterStep::SkipRest(CHANGED)))
    }

    /// Asks people for help, and waits until somebody has answered, as long as the request allows.
    ///
    /// # Errors
    /// Those of [`Executor::control`](crate::chat::runs::executor::Executor::control).
    pub(super) async fn wait_for_help(&mut self, message: String) -> Result<(CallResult, AfterStep)> {
        if self.helps >= MAX_HELP_REQUESTS {
            let text =
                format!("You have asked for help {MAX_HELP_REQUESTS} times, which is the most in a run.");
            return Ok((CallResult::failed(text), AfterStep::GoOn));
        }
        self.helps += 1;
        let seconds = self.plan.limits.help_seconds;
        let asked = match self.parts.executor.ask_for_help(&message, seconds).await? {
            HelpAsked::Waits(asked) => asked,
            HelpAsked::Refused(result) => return Ok((result, AfterStep::GoOn)),
        };
        self.tell(RunProgress { waiting_for: Some(HELP.to_owned()), holder: None, message: Some(message) })
            .await;
        let (state, now) = self.until_helped(asked, Duration::from_secs(seconds.into())).await?;
        if state != HelpState::Waits {
            self.parts.executor.note_help_ended();
        }
        self.tell_end().await;
        let mut result = help_ended(&state, &now, seconds);
        self.parts.executor.show(&mut result).await?;
        Ok((result, AfterStep::SkipRest(CHANGED)))
    }

    /// Waits until a request for help has ended, at most `most`. Returns its state and the control then.
    async fn until_helped(&mut self, asked: ControlView, most: Duration) -> Result<(HelpState, ControlView)> {
        let started = Instant::now();
        let mut now = asked.clone();
        loop {
            let state = asked.help_state(&now);
            let left = most.saturating_sub(started.elapsed());
            if state != HelpState::Waits || left.is_zero() {
                return Ok((state, now));
            }
            if let Some(changed) = self.parts.executor.control(Some(now.revision), left).await? {
                now = changed;
            }
        }
    }

    /// Tells the client and readers of the thread what the run waits for.
    async fn tell(&mut self, progress: RunProgress) {
        self.parts.active.set_waiting(self.done.thread, Some(progress.clone()));
        self.parts.reporter.send(RunEvent::Progress(progress)).await;
    }

    /// Tells them that it waits no longer.
    async fn tell_end(&mut self) {
        self.parts.active.set_waiting(self.done.thread, None);
        self.parts.reporter.send(RunEvent::Progress(RunProgress::default())).await;
    }
}
