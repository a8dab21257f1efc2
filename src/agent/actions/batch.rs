//! How is a list of actions done? In order on one screen, with nobody else's between them, each with its own result.

use std::sync::Arc;
use std::time::Instant;

use super::{Acting, check};
use crate::display::Screen;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::error_response;
use hotdesk_wire::batch::{Action, Batch, BatchError, BatchItem, BatchResult};

/// Most actions of one list: a form of fifty fields, each clicked, cleared, filled and checked.
const MAX_ACTIONS: usize = 200;
/// Longest base64 of all screenshots of one list; a list of many large ones is better asked for one by one.
const MAX_PICTURES: usize = 16 * 1024 * 1024;

impl Acting {
    /// Does a list of actions.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long list, and when any of its actions asks for a wait out of range: then nothing was
    /// done. What fails later is told in the list's results.
    pub async fn act_all(&self, screen: Option<&str>, batch: Batch) -> Result<BatchResult> {
        if !(1..=MAX_ACTIONS).contains(&batch.actions.len()) {
            return Err(Error::invalid(format!("actions must be 1 to {MAX_ACTIONS}")));
        }
        for action in &batch.actions {
            check(action)?;
        }
        let screen = self.displays.screen(screen)?;
        let _turn = screen.turn().await?;
        // A screen that is not up fails the whole list: nothing of it was done.
        screen.moment().await?;
        let began = Instant::now();
        let go_on = batch.continue_on_error.unwrap_or(false);
        let count = batch.actions.len();
        let mut results = Vec::with_capacity(count);
        let mut success = true;
        let mut pictures = 0;
        let mut unfinished = Unfinished { acting: self, screen: Arc::clone(&screen), pressed: false };
        for action in batch.actions {
            unfinished.pressed |= matches!(action, Action::MouseDown(_) | Action::KeyDown(_));
            let item = match self.bounded(&screen, action, &mut pictures).await {
                Ok(result) => {
                    success &= result.success;
                    BatchItem { result: Some(result), error: None }
                }
                Err(error) => {
                    success = false;
                    BatchItem { result: None, error: Some(told(error)) }
                }
            };
            results.push(item);
            if !success && !go_on {
                break;
            }
        }
        unfinished.pressed = false;
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(BatchResult { success, not_tried: count - results.len(), results, took_ms })
    }

    async fn bounded(
        &self,
        screen: &Arc<Screen>,
        action: Action,
        pictures: &mut usize,
    ) -> Result<hotdesk_wire::effect::ActionResult> {
        let result = self.act_in_turn(screen, action).await?;
        *pictures += result.screenshot.as_ref().map_or(0, |shot| shot.image.len());
        if *pictures > MAX_PICTURES {
            return Err(Error::too_large(format!(
                "the screenshots of the list are larger than {MAX_PICTURES} bytes"
            )));
        }
        Ok(result)
    }
}

/// A list that is still being done. Dropped so, its client is gone, and what would have let go comes no more.
struct Unfinished<'a> {
    acting: &'a Acting,
    screen: Arc<Screen>,
    /// Whether it has pressed what stays down.
    pressed: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.pressed {
            return;
        }
        let screen = Arc::clone(&self.screen);
        let _letting_go = self.acting.tasks.spawn("an unfinished list", async move {
            if let Err(error) = screen.release_kept().await {
                tracing::warn!(screen = screen.id, %error, "could not let go of what a list pressed");
            }
        });
    }
}

fn told(error: Error) -> BatchError {
    if let Some(context) = &error.context {
        tracing::warn!(context, "an action of a list failed");
    }
    BatchError {
        status: error_response::status(error.kind).as_u16(),
        error: error.message,
        code: error.code.map(str::to_owned),
    }
}
