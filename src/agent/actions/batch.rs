//! Batches of actions: executed in order on one screen, without other clients' actions between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ActionRunner, after_delivery, check, screenshot_options, settle, settled_screenshot};
use crate::display::{Moment, Screen};
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_domain::limits::{MAX_GROUP_ACTIONS, MAX_LIST_ACTIONS, MAX_LIST_DURATION};
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::batch::{Batch, BatchError, BatchItem, BatchResult};
use hotdesk_wire::desktop::effect::{ActionResult, ScreenObservation, Settle};
use hotdesk_wire::desktop::screenshot::ScreenshotBase64;

/// Most bytes of base64 of all screenshots in one batch, with the one at its end; many large ones are better
/// requested one by one. The controller accepts answers of 24 MiB.
const MAX_PICTURES: usize = 16 * 1024 * 1024;

impl ActionRunner {
    /// Executes a batch. `took_ms` is in milliseconds; results are in the order of the actions.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long batch, for groups of other actions than it has, or for a bad
    /// parameter of a wait or a screenshot; `NotFound`, `Unavailable` or `TimedOut` for the screen;
    /// `Conflict` (`control_held`) for a list with input while another actor than `by` holds the screen.
    /// Nothing was done then. Later failures are in the batch's results, that of its end in `settle_error`.
    pub async fn act_all(
        &self,
        by: Option<Actor>,
        screen: Option<&str>,
        batch: Batch,
    ) -> Result<BatchResult> {
        let groups = groups(&batch)?;
        check_duration(&batch.actions)?;
        batch.actions.iter().try_for_each(check)?;
        let screen = self.displays.screen(screen)?;
        check_settle(batch.settle.as_ref(), screen.size())?;
        // A list that only looks needs no turn, and nobody is refused to look.
        let has_input = batch.actions.iter().any(|action| action.options().is_some());
        let turn = if has_input {
            screen.control().check(by)?;
            let turn = screen.acquire_turn().await?;
            screen.control().check(by)?;
            Some(turn)
        } else {
            None
        };
        // A screen that is not running fails the whole batch: nothing of it was done.
        let from = screen.moment().await?;
        let began = Instant::now();
        let go_on = batch.continue_on_error.unwrap_or(false);
        let count = groups.len();
        let mut results = Vec::with_capacity(count);
        let mut success = true;
        let mut progress = BatchInProgress {
            runner: self,
            by,
            screen: Arc::clone(&screen),
            has_input,
            pressed: false,
            pictures: 0,
        };
        let mut actions = batch.actions.into_iter();
        for size in groups {
            let group = actions.by_ref().take(size).collect();
            let item = match progress.act_group(group).await {
                Ok(result) => {
                    success &= result.success;
                    BatchItem { result: Some(result), error: None }
                }
                Err(error) => {
                    success = false;
                    BatchItem { result: None, error: Some(batch_error(error)) }
                }
            };
            results.push(item);
            if !success && !go_on {
                break;
            }
        }
        progress.pressed = false;
        if has_input && screen.control().check(by).is_err() {
            // The holder does not wait for the end of a list that has lost the screen.
            drop(turn);
        }
        // The results must reach the client whatever happens now: the input was delivered.
        let End { settle, screenshot, error } = match &batch.settle {
            Some(wanted) => progress.end(from, wanted).await,
            None => End::default(),
        };
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let not_tried = count - results.len();
        let settle_error = error.map(batch_error);
        Ok(BatchResult { success, results, not_tried, took_ms, settle, screenshot, settle_error })
    }
}

/// What a batch saw at its end, until the failure if there was one.
#[derive(Default)]
struct End {
    settle: Option<ScreenObservation>,
    screenshot: Option<ScreenshotBase64>,
    error: Option<Error>,
}

/// Checks how long the actions take at most.
///
/// # Errors
/// `Invalid` when that is too long.
fn check_duration(actions: &[Action]) -> Result<()> {
    if actions.iter().map(Action::duration).sum::<Duration>() <= MAX_LIST_DURATION {
        return Ok(());
    }
    let minutes = MAX_LIST_DURATION.as_secs() / 60;
    Err(Error::invalid(format!("the actions of the list could take more than {minutes} minutes: split it")))
}

/// The sizes of a batch's groups; an action without a group is its own.
///
/// # Errors
/// `Invalid` for no group and for too many, for sizes out of range, and when their sum is not the number of
/// actions.
fn groups(batch: &Batch) -> Result<Vec<usize>> {
    let count = batch.groups.as_ref().map_or(batch.actions.len(), Vec::len);
    if !(1..=MAX_LIST_ACTIONS).contains(&count) {
        return Err(Error::invalid(format!("actions must be 1 to {MAX_LIST_ACTIONS}")));
    }
    let Some(groups) = &batch.groups else { return Ok(vec![1; count]) };
    let groups: Vec<usize> = groups.iter().map(|size| *size as usize).collect();
    if groups.iter().any(|size| !(1..=MAX_GROUP_ACTIONS).contains(size)) {
        return Err(Error::invalid(format!("groups must have 1 to {MAX_GROUP_ACTIONS} actions each")));
    }
    if groups.iter().sum::<usize>() != batch.actions.len() {
        return Err(Error::invalid("groups must have as many actions as the list"));
    }
    Ok(groups)
}

/// Checks the wait and the screenshot at the end, on a screen of this size.
fn check_settle(wanted: Option<&Settle>, size: Size) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    settle::check(wanted)?;
    let Some(query) = &wanted.screenshot else { return Ok(()) };
    screenshot_options(query)?.region.map_or(Ok(()), |region| region.within(size))
}

/// A batch in progress. It is dropped in progress when its client disconnects; the actions that would release
/// the input are then missing.
struct BatchInProgress<'a> {
    runner: &'a ActionRunner,
    /// Who sent it.
    by: Option<Actor>,
    screen: Arc<Screen>,
    /// Whether an action of it is input.
    has_input: bool,
    /// Whether it has pressed a key or button.
    pressed: bool,
    /// Bytes of its screenshots so far.
    pictures: usize,
}

impl BatchInProgress<'_> {
    /// Executes the actions of one group until one fails. When the group has pressed something, everything
    /// that is held is released then, because its later actions would have done so. Returns the result of the
    /// last action that is more than a part of holding a key.
    async fn act_group(&mut self, group: Vec<Action>) -> Result<ActionResult> {
        let is_alone = group.len() == 1;
        let (mut main, mut last, mut has_pressed) = (None, None, false);
        for action in group {
            // Before the attempt: one that fails may have pressed all the same.
            has_pressed |= matches!(action, Action::MouseDown(_) | Action::KeyDown(_));
            self.pressed |= has_pressed;
            let is_part = matches!(action, Action::KeyDown(_) | Action::KeyUp(_) | Action::Wait(_));
            match self.act(action).await {
                Ok(result) if is_part => last = Some(result),
                Ok(result) => main = Some(result),
                Err(error) => {
                    if has_pressed && !is_alone {
                        release_held(self.by, &self.screen).await;
                    }
                    return Err(error);
                }
            }
        }
        main.or(last).ok_or_else(|| Error::internal("a group without actions"))
    }

    async fn act(&mut self, action: Action) -> Result<ActionResult> {
        let is_input = action.options().is_some();
        let acting = self.runner.act_in_turn(self.by, &self.screen, action);
        let result = if self.has_input && !is_input {
            // A wait ends when somebody takes the screen: the list keeps the turn until its next action
            // fails.
            tokio::select! {
                biased;
                refusal = self.screen.control().refusal(self.by) => return Err(refusal),
                result = acting => result?,
            }
        } else {
            acting.await?
        };
        match self.count_picture(result.screenshot.as_ref()) {
            Err(error) if is_input => Err(after_delivery(error)),
            counted => counted.map(|()| result),
        }
    }

    /// Waits for a stable screen, and takes the screenshot at the end.
    async fn end(&mut self, from: Moment, wanted: &Settle) -> End {
        let settle = match settle::wait_until_quiet(&self.screen, from, wanted).await {
            Ok(watched) => Some(watched),
            Err(error) => return End { error: Some(error), ..End::default() },
        };
        let taken = settled_screenshot(&self.screen, wanted).await;
        match taken.and_then(|taken| self.count_picture(taken.as_ref()).map(|()| taken)) {
            Ok(screenshot) => End { settle, screenshot, error: None },
            Err(error) => End { settle, screenshot: None, error: Some(error) },
        }
    }

    /// Counts a screenshot of the answer, if it fits.
    ///
    /// # Errors
    /// `TooLarge` for too many bytes.
    fn count_picture(&mut self, picture: Option<&ScreenshotBase64>) -> Result<()> {
        let pictures = self.pictures + picture.map_or(0, |picture| picture.image.len());
        if pictures > MAX_PICTURES {
            let message = format!("the screenshots of the batch are larger than {MAX_PICTURES} bytes");
            return Err(Error::too_large(message));
        }
        self.pictures = pictures;
        Ok(())
    }
}

/// Releases all keys and buttons that clients hold on a screen. When another actor has taken it, those that
/// are held now are the holder's, and the earlier ones were released.
async fn release_held(by: Option<Actor>, screen: &Screen) {
    // Held until they are up, so that nobody takes the screen and presses in between.
    let Ok(_input) = screen.control().admit(by).await else { return };
    if let Err(error) = screen.release_held_input().await {
        tracing::warn!(
            screen = screen.id,
            error = format_args!("{error:#}"),
            "cannot release the keys and buttons of a batch that failed or was interrupted"
        );
    }
}

impl Drop for BatchInProgress<'_> {
    fn drop(&mut self) {
        if !self.pressed {
            return;
        }
        let (by, screen) = (self.by, Arc::clone(&self.screen));
        let _task = self.runner.tasks.spawn("release of an interrupted batch", async move {
            release_held(by, &screen).await;
        });
    }
}

fn batch_error(error: Error) -> BatchError {
    if let Some(context) = &error.context {
        tracing::warn!(context, "an action of a batch failed");
    }
    BatchError {
        status: error_response::status(error.kind).as_u16(),
        error: error.message,
        code: error.code.map(|code| code.as_str().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn a_list_takes_a_quarter_of_an_hour_at_most() {
        let of = |count: usize| {
            let actions = json!(vec![json!({"action": "wait", "seconds": 60}); count]);
            super::check_duration(&serde_json::from_value::<Vec<_>>(actions).unwrap())
        };
        assert!(of(15).is_ok());
        assert!(of(16).unwrap_err().message.contains("more than 15 minutes"));
    }

    #[test]
    fn groups_have_all_actions_of_the_list() {
        let of = |count: usize, groups: Value| {
            let actions = vec![json!({"action": "wait", "seconds": 0}); count];
            let batch = json!({"actions": actions, "groups": groups});
            super::groups(&serde_json::from_value(batch).unwrap()).map_err(|error| error.message)
        };
        assert_eq!(of(3, Value::Null), Ok(vec![1, 1, 1]));
        assert_eq!(of(3, json!([2, 1])), Ok(vec![2, 1]));
        assert_eq!(of(400, json!(vec![2; 200])), Ok(vec![2; 200]));
        for (count, groups, part) in [
            (0, Value::Null, "actions must be 1 to 200"),
            (201, Value::Null, "actions must be 1 to 200"),
            (1, json!([]), "actions must be 1 to 200"),
            (3, json!([1, 1]), "as many"),
            (3, json!([3, 1]), "as many"),
            (3, json!([3, 0]), "1 to 16"),
            (17, json!([17]), "1 to 16"),
        ] {
            let error = of(count, groups.clone()).expect_err("refused");
            assert!(error.contains(part), "{count} {groups}: {error}");
        }
    }
}
