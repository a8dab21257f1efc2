//! Execution of input actions: parse, act on the screen in turn, observe the effect, and wait for a stable
//! screen.
//!
//! Single requests and batches both use [`ActionRunner::act_in_turn`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

mod batch;
mod control;
mod frame_coordinates;
mod keyboard;
mod look;
mod paste;
mod pointer;
mod settle;
pub mod wait;

use crate::display::screenshot::response;
use crate::display::{Displays, Effect, Observation, Screen, ScreenshotOptions};
use crate::media::recording::Recordings;
use crate::media::timeline::{EntrySink, NewEntry, Timelines, record};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::action::{Action, CursorPosition, WaitChange, WaitStable};
use hotdesk_wire::desktop::effect::{ActionResult, ScreenObservation, Settle, WindowName};
use hotdesk_wire::desktop::effect::{Area, Effect as WireEffect};
use hotdesk_wire::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};

/// How long a client may hold keys or buttons down without another action on the screen. Real long presses
/// are far shorter; after a client's crash the screen becomes usable again.
const HELD_INPUT_TIMEOUT: Duration = Duration::from_secs(60);

// An action of the table has a method of `ActionRunner`, named like its route's handler.
macro_rules! perform_action {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt
        $({ handler: $handler:ident, summary: $summary:tt, answer: $answer:tt, })?,)*) => {
        async fn perform(&self, screen: &Arc<Screen>, action: Action) -> Result<ActionResult> {
            match frame_coordinates::to_screen(screen, action).await? {
                $($(Action::$variant(body) => self.$handler(screen, body).await,)?)*
                Action::Wait(body) => wait::wait(&self.tasks, &body).await,
                Action::Screenshot(query) => {
                    let screenshot = take(screen, &query).await?;
                    Ok(observed("screenshot", None, Some(screenshot)))
                }
                Action::Zoom(body) => look::zoom(screen, body).await,
                Action::CursorPosition(query) => look::pointer_position(screen, query).await,
            }
        }
    };
}

/// Executes actions on the screens.
#[derive(Clone, Debug)]
pub struct ActionRunner {
    displays: Displays,
    recordings: Recordings,
    timelines: Timelines,
    tasks: Tasks,
}

impl ActionRunner {
    /// Actions get entries in `timelines` and `recordings`; tasks of `tasks` end with the agent.
    pub fn new(displays: Displays, recordings: Recordings, timelines: Timelines, tasks: Tasks) -> Self {
        Self { displays, recordings, timelines, tasks }
    }

    /// The screens.
    pub fn displays(&self) -> &Displays {
        &self.displays
    }

    /// Executes one action on a screen, in its turn.
    ///
    /// # Errors
    /// `Invalid` for bad parameters; `NotFound` for an unknown screen; `Unavailable` or `TimedOut` when the
    /// screen cannot be used now; `Conflict` (`unknown_frame`, `stale_frame`; `control_held` for input while
    /// another actor than `by` holds the screen). An error with the code `outcome_unknown` comes after the
    /// input was delivered.
    pub async fn act(&self, by: Option<Actor>, screen: Option<&str>, action: Action) -> Result<ActionResult> {
        check(&action)?;
        let screen = self.displays.screen(screen)?;
        // Waits and screenshots need no turn. Input is refused at once, also while another one has the turn.
        let _turn = if action.options().is_some() {
            screen.control().check(by)?;
            Some(screen.acquire_turn().await?)
        } else {
            None
        };
        self.act_in_turn(by, &screen, action).await
    }

    /// Returns the pointer position of a screen, and the pressed buttons and modifiers.
    ///
    /// # Errors
    /// `NotFound` for an unknown screen; `Unavailable` or `TimedOut` when the screen cannot be used now.
    pub async fn cursor_position(&self, screen: Option<&str>) -> Result<CursorPosition> {
        Ok(look::cursor_position(&self.displays.screen(screen)?.pointer().await?))
    }

    async fn act_in_turn(
        &self,
        by: Option<Actor>,
        screen: &Arc<Screen>,
        action: Action,
    ) -> Result<ActionResult> {
        let _input = control::admit(by, screen, &action).await?;
        let recording = self.recordings.timeline(screen).map(|timeline| timeline as Arc<dyn EntrySink>);
        let begun = self.timelines.begin(screen, NewEntry::of_action(by, &action, recording));
        let outcome = self.perform(screen, action).await;
        begun.end(|entry| record::add_outcome(entry, &outcome));
        outcome
    }

    hotdesk_wire::for_each_action!(perform_action);

    /// Waits until the screen stops changing.
    async fn wait_stable(&self, screen: &Arc<Screen>, body: WaitStable) -> Result<ActionResult> {
        let from = screen.moment().await?;
        let watched = settle::wait_until_quiet(screen, from, &body.settle).await?;
        let screenshot = settled_screenshot(screen, &body.settle).await?;
        Ok(observed("wait_stable", Some(watched), screenshot))
    }

    /// Waits until the screen changes.
    async fn wait_change(&self, screen: &Arc<Screen>, body: WaitChange) -> Result<ActionResult> {
        let watched = settle::wait_for_change(screen, &body).await?;
        let wanted = Settle { screenshot: body.screenshot, ..Settle::default() };
        let screenshot = settled_screenshot(screen, &wanted).await?;
        Ok(observed("wait_change", Some(watched), screenshot))
    }

    /// Releases held input when the screen is idle for a time.
    fn release_later(&self, screen: &Arc<Screen>) {
        if !screen.claim_release_task() {
            return;
        }
        let (screen, stopping) = (Arc::clone(screen), self.tasks.stopping());
        let _task = self.tasks.spawn("release of held input", async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = screen.wait_until_idle(HELD_INPUT_TIMEOUT) => {}
            }
            // A screen that is ending releases everything by itself.
            match screen.release_held_input().await {
                Ok(0) => {}
                Ok(count) => tracing::info!(
                    screen = screen.id,
                    count,
                    "released keys or buttons that a client had left pressed"
                ),
                Err(error) => {
                    tracing::warn!(
                        screen = screen.id,
                        error = format_args!("{error:#}"),
                        "cannot release keys or buttons that a client has left pressed"
                    )
                }
            }
        });
    }
}

/// Checks the parameters of waits and screenshots before the action is executed.
fn check(action: &Action) -> Result<()> {
    let (settle, screenshot) = if let Action::WaitStable(body) = action {
        (Some(&body.settle), body.settle.screenshot.as_ref())
    } else if let Action::WaitChange(body) = action {
        settle::check_change(body)?;
        (None, body.screenshot.as_ref())
    } else if let Action::Screenshot(query) = action {
        (None, Some(query))
    } else if let Action::Zoom(body) = action {
        (None, body.screenshot.as_ref())
    } else {
        let settle = action.options().and_then(|options| options.settle.as_ref());
        (settle, settle.and_then(|settle| settle.screenshot.as_ref()))
    };
    settle.map_or(Ok(()), settle::check)?;
    check_screenshot(screenshot)
}

/// Checks the options of a screenshot before the action is executed.
fn check_screenshot(query: Option<&ScreenshotQuery>) -> Result<()> {
    query.map_or(Ok(()), |query| screenshot_options(query).map(|_| ()))
}

async fn finish<T>(
    screen: &Screen,
    action: &str,
    details: Value,
    done: Observation<T>,
    settle: Option<Settle>,
) -> Result<ActionResult> {
    let mut result = ActionResult {
        success: true,
        action: action.to_owned(),
        details: Some(details),
        ..ActionResult::default()
    };
    let Some(settle) = settle else {
        result.effect = Some(effect(&done.effect, None));
        return Ok(result);
    };
    observe_on(screen, &settle, done.effect, &mut result).await.map_err(after_delivery)?;
    Ok(result)
}

async fn observe_on(screen: &Screen, settle: &Settle, seen: Effect, result: &mut ActionResult) -> Result<()> {
    let watched = settle::wait_until_quiet(screen, seen.since, settle).await?;
    let after = screen.observe_current().await?;
    result.effect = Some(effect(&Effect { after: after.after, ..seen }, Some(&watched)));
    result.settle = Some(watched);
    result.screenshot = settled_screenshot(screen, settle).await?;
    Ok(())
}

/// Error of a screen that ended after the input was delivered: the client must not assume that nothing was
/// done.
fn after_delivery(mut error: Error) -> Error {
    error.message =
        format!("The input was delivered, but its effect could not be observed: {}", error.message);
    error.code(ErrorCode::OutcomeUnknown)
}

fn effect(seen: &Effect, watched: Option<&ScreenObservation>) -> WireEffect {
    let changed: Vec<Area> = match watched {
        Some(watched) => watched.changed.clone(),
        None => seen.change.areas.iter().copied().map(Area::from).collect(),
    };
    let no_visible_change = match (changed.is_empty(), watched, seen.change.known) {
        (false, _, _) => Some(false),
        (true, Some(_), true) => Some(true),
        (true, _, _) => None,
    };
    let window = |attention: &crate::display::FocusedWindow| {
        let id = format!("{:#x}", attention.window?);
        Some(WindowName { id, title: attention.title.clone() })
    };
    let waited = watched.map_or(0.0, |watched| watched.waited_ms as f64);
    let observed = seen.took.as_secs_f64() * 1000.0 + waited;
    WireEffect {
        window_before: window(&seen.before),
        window_after: window(&seen.after),
        changed,
        // Microseconds do not matter to a reader.
        observed_ms: (observed * 100.0).round() / 100.0,
        no_visible_change,
    }
}

fn observed(
    action: &str,
    settle: Option<ScreenObservation>,
    screenshot: Option<ScreenshotBase64>,
) -> ActionResult {
    ActionResult { success: true, action: action.to_owned(), settle, screenshot, ..ActionResult::default() }
}

async fn settled_screenshot(screen: &Screen, settle: &Settle) -> Result<Option<ScreenshotBase64>> {
    match &settle.screenshot {
        None => Ok(None),
        Some(query) => take(screen, query).await.map(Some),
    }
}

async fn take(screen: &Screen, query: &ScreenshotQuery) -> Result<ScreenshotBase64> {
    Ok(response::to_json(&screen.id, &screen.screenshot(screenshot_options(query)?).await?))
}

fn screenshot_options(query: &ScreenshotQuery) -> Result<ScreenshotOptions> {
    if query.screen.is_some() || query.response_format.is_some() {
        return Err(Error::invalid("a screenshot inside an action is of its screen, as base64"));
    }
    ScreenshotOptions::parse(query)
}
