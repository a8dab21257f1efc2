//! Batches of actions: executed in order on one screen, without other clients' actions between them.

use std::sync::Arc;
use std::time::Instant;

use super::{ActionRunner, after_delivery, check, check_screenshot, settle, settled_screenshot};
use crate::display::Screen;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::limits::{MAX_GROUP_ACTIONS, MAX_LIST_ACTIONS};
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::{Action, KeyPress};
use hotdesk_wire::desktop::batch::{Batch, BatchError, BatchItem, BatchResult};
use hotdesk_wire::desktop::effect::{ActionResult, Settle};
use hotdesk_wire::desktop::screenshot::ScreenshotBase64;

/// Most bytes of base64 of all screenshots in one batch, with the one at its end; many large ones are better
/// requested one by one. The controller accepts answers of 24 MiB.
const MAX_PICTURES: usize = 16 * 1024 * 1024;

impl ActionRunner {
    /// Executes a batch. `took_ms` is in milliseconds; results are in the order of the actions.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long batch, for groups of other actions than it has, or for a bad
    /// parameter of a wait or a screenshot; `NotFound`, `Unavailable` or `TimedOut` for the screen. Nothing
    /// was done then. Later failures are in the batch's results, except those of the wait at the end
    /// (`outcome_unknown`).
    pub async fn act_all(&self, screen: Option<&str>, batch: Batch) -> Result<BatchResult> {
        let groups = groups(&batch)?;
        batch.actions.iter().try_for_each(check)?;
        check_settle(batch.settle.as_ref())?;
        let screen = self.displays.screen(screen)?;
        let _turn = screen.acquire_turn().await?;
        // A screen that is not running fails the whole batch: nothing of it was done.
        let from = screen.moment().await?;
        let began = Instant::now();
        let go_on = batch.continue_on_error.unwrap_or(false);
        let count = groups.len();
        let mut results = Vec::with_capacity(count);
        let mut success = true;
        let mut progress =
            BatchInProgress { runner: self, screen: Arc::clone(&screen), pressed: false, pictures: 0 };
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
        let (mut settle, mut screenshot) = (None, None);
        if let Some(wanted) = &batch.settle {
            let watched = settle::wait_until_quiet(&screen, from, wanted).await.map_err(after_delivery)?;
            settle = Some(watched);
            screenshot = settled_screenshot(&screen, wanted).await.map_err(after_delivery)?;
            progress.count_picture(screenshot.as_ref()).map_err(after_delivery)?;
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(BatchResult { success, not_tried: count - results.len(), results, took_ms, settle, screenshot })
    }
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

fn check_settle(wanted: Option<&Settle>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    settle::check(wanted)?;
    check_screenshot(wanted.screenshot.as_ref())
}

/// A batch in progress. It is dropped in progress when its client disconnects; the actions that would release
/// the input are then missing.
struct BatchInProgress<'a> {
    runner: &'a ActionRunner,
    screen: Arc<Screen>,
    /// Whether it has pressed a key or button.
    pressed: bool,
    /// Bytes of its screenshots so far.
    pictures: usize,
}

impl BatchInProgress<'_> {
    /// Executes the actions of one group until one fails. Keys that the group has pressed are released then,
    /// as its later actions would have done. Returns the result of the last action that is more than a part
    /// of holding a key.
    async fn act_group(&mut self, group: Vec<Action>) -> Result<ActionResult> {
        let mut held: Vec<KeyPress> = Vec::new();
        let (mut main, mut last, mut failure) = (None, None, None);
        for action in group {
            if failure.is_some() && !releases(&action, &held) {
                continue;
            }
            self.pressed |= matches!(action, Action::MouseDown(_) | Action::KeyDown(_));
            let is_part = matches!(action, Action::KeyDown(_) | Action::KeyUp(_) | Action::Wait(_));
            let pressed = if let Action::KeyDown(body) = &action { Some(body.clone()) } else { None };
            match self.act(action).await {
                Ok(result) if is_part => {
                    held.extend(pressed);
                    last = Some(result);
                }
                Ok(result) => main = Some(result),
                Err(error) if failure.is_none() => failure = Some(error),
                Err(error) => tracing::warn!(
                    screen = self.screen.id,
                    error = format_args!("{error:#}"),
                    "cannot release a key after a failed action"
                ),
            }
        }
        match (failure, main.or(last)) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(Error::internal("a group without actions")),
        }
    }

    async fn act(&mut self, action: Action) -> Result<ActionResult> {
        let result = self.runner.act_in_turn(&self.screen, action).await?;
        self.count_picture(result.screenshot.as_ref())?;
        Ok(result)
    }

    /// Counts a screenshot of the answer.
    ///
    /// # Errors
    /// `TooLarge` for too many bytes.
    fn count_picture(&mut self, picture: Option<&ScreenshotBase64>) -> Result<()> {
        self.pictures += picture.map_or(0, |picture| picture.image.len());
        if self.pictures > MAX_PICTURES {
            let message = format!("the screenshots of the batch are larger than {MAX_PICTURES} bytes");
            return Err(Error::too_large(message));
        }
        Ok(())
    }
}

/// Whether an action releases one of these pressed keys.
fn releases(action: &Action, held: &[KeyPress]) -> bool {
    if let Action::KeyUp(body) = action { held.iter().any(|down| down.key == body.key) } else { false }
}

impl Drop for BatchInProgress<'_> {
    fn drop(&mut self) {
        if !self.pressed {
            return;
        }
        let screen = Arc::clone(&self.screen);
        let _task = self.runner.tasks.spawn("release of an interrupted batch", async move {
            if let Err(error) = screen.release_held_input().await {
                tracing::warn!(
                    screen = screen.id,
                    error = format_args!("{error:#}"),
                    "cannot release the keys and buttons of an interrupted batch"
                );
            }
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
