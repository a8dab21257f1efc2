//! Batches of actions: executed in order on one screen, without other clients' actions between them.

use std::sync::Arc;
use std::time::Instant;

use super::{ActionRunner, check};
use crate::display::Screen;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::error_response;
use hotdesk_wire::desktop::action::Action;
use hotdesk_wire::desktop::batch::{Batch, BatchError, BatchItem, BatchResult};

/// Most actions of one batch: a form of fifty fields, each clicked, cleared, filled and checked.
const MAX_ACTIONS: usize = 200;
/// Most bytes of base64 of all screenshots in one batch; many large ones are better requested one by one.
const MAX_PICTURES: usize = 16 * 1024 * 1024;

impl ActionRunner {
    /// Executes a batch. `took_ms` is in milliseconds; results are in the order of the actions.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long batch or a bad parameter of a wait or a screenshot; `NotFound`,
    /// `Unavailable` or `TimedOut` for the screen. Nothing was done then. Later failures are in the batch's
    /// results.
    pub async fn act_all(&self, screen: Option<&str>, batch: Batch) -> Result<BatchResult> {
        if !(1..=MAX_ACTIONS).contains(&batch.actions.len()) {
            return Err(Error::invalid(format!("actions must be 1 to {MAX_ACTIONS}")));
        }
        for action in &batch.actions {
            check(action)?;
        }
        let screen = self.displays.screen(screen)?;
        let _turn = screen.acquire_turn().await?;
        // A screen that is not running fails the whole batch: nothing of it was done.
        screen.moment().await?;
        let began = Instant::now();
        let go_on = batch.continue_on_error.unwrap_or(false);
        let count = batch.actions.len();
        let mut results = Vec::with_capacity(count);
        let mut success = true;
        let mut pictures = 0;
        let mut progress = BatchInProgress { runner: self, screen: Arc::clone(&screen), pressed: false };
        for action in batch.actions {
            progress.pressed |= matches!(action, Action::MouseDown(_) | Action::KeyDown(_));
            let item = match self.act_within_size(&screen, action, &mut pictures).await {
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
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(BatchResult { success, not_tried: count - results.len(), results, took_ms })
    }

    async fn act_within_size(
        &self,
        screen: &Arc<Screen>,
        action: Action,
        pictures: &mut usize,
    ) -> Result<hotdesk_wire::desktop::effect::ActionResult> {
        let result = self.act_in_turn(screen, action).await?;
        *pictures += result.screenshot.as_ref().map_or(0, |shot| shot.image.len());
        if *pictures > MAX_PICTURES {
            return Err(Error::too_large(format!(
                "the screenshots of the batch are larger than {MAX_PICTURES} bytes"
            )));
        }
        Ok(result)
    }
}

/// A batch in progress. It is dropped in progress when its client disconnects; the actions that would release
/// the input are then missing.
struct BatchInProgress<'a> {
    runner: &'a ActionRunner,
    screen: Arc<Screen>,
    /// Whether it has pressed a key or button.
    pressed: bool,
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
