//! Calls of the tool `computer`: input, and the picture and the effect that it returns.

use serde_json::Value;

use super::actions::{groups, picture, picture_of, prepare};
use super::{CallExecution, CallResult, Executor, Frame};
use hotdesk_domain::error::Result;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::conversation::Image;
use hotdesk_wire::desktop::action::{Action, PointerButton};
use hotdesk_wire::desktop::batch::BatchError;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::desktop::screenshot::ScreenshotBase64;
use hotdesk_wire::desktop::vendor::AnthropicAction;

/// Result of an action whose target has changed since the picture.
const STALE: &str = "The screen has changed at this place since the picture that you acted on. Nothing was \
                     done. Look at the new picture and act again.";

impl Executor {
    /// Executes a call. `frame` is the picture that its coordinates refer to.
    ///
    /// # Errors
    /// Those of [`Executor::execute`].
    pub(super) async fn act(
        &mut self,
        input: &Value,
        frame: Option<String>,
        is_first: bool,
        wants_picture: bool,
    ) -> Result<CallExecution> {
        let read =
            AnthropicAction::read(input.clone()).and_then(|action| action.into_actions(frame.as_deref()));
        let mut actions = match read {
            Ok(actions) => actions,
            Err(why) => {
                return Ok(CallExecution::Done(CallResult::failed(format!("The call is invalid: {why}"))));
            }
        };
        // Only the first call of a turn: later ones follow changes that the model expects.
        let refuses_stale = is_first && frame.is_some() && !self.was_stale;
        let own = actions.len();
        let sees_part = prepare(&mut actions, refuses_stale, wants_picture, &picture(self.pixels));
        self.note_held(&actions);
        let groups = groups(own, actions.len());
        let done = match self.send(actions, Some(groups)).await {
            Ok(done) => done,
            Err(error) if error.code == Some(ErrorCode::ControlHeld) => return Ok(CallExecution::Held),
            Err(error) => return self.unsent(error).map(CallExecution::Done),
        };
        self.failures = 0;
        self.was_stale = false;
        if done.results.iter().filter_map(|item| item.error.as_ref()).any(is_held) {
            return Ok(CallExecution::Held);
        }
        let mut result = CallResult::default();
        for item in &done.results {
            if let Some(ActionResult { action, details: Some(details), .. }) = &item.result
                && action == "cursor_position"
            {
                result.text = details.to_string();
            }
            if let Some(ActionResult { effect: Some(effect), .. }) = &item.result {
                result.effect = serde_json::to_value(effect).ok();
                result.text = match effect.no_visible_change {
                    Some(true) => "Done. Nothing on the screen changed.".to_owned(),
                    Some(false) | None => "Done.".to_owned(),
                };
            }
            if let Some(error) = &item.error {
                self.refuse(&mut result, error);
            }
        }
        let shown = done.results.into_iter().rev().find_map(|item| item.result?.screenshot);
        match shown {
            Some(shown) if sees_part => result.image = Some(picture_of(&shown, self.pixels)?),
            Some(shown) => result.image = Some(self.note_frame(&shown)?),
            None if wants_picture || result.is_error => self.show(&mut result).await?,
            None => {}
        }
        Ok(CallExecution::Done(result))
    }

    fn refuse(&mut self, result: &mut CallResult, error: &BatchError) {
        let code = error.code.as_deref().and_then(ErrorCode::parse);
        result.is_error = true;
        if code == Some(ErrorCode::StaleFrame) || code == Some(ErrorCode::UnknownFrame) {
            self.was_stale = true;
            result.text = STALE.to_owned();
        } else {
            result.text = error.error.clone();
        }
    }

    fn note_frame(&mut self, shown: &ScreenshotBase64) -> Result<Image> {
        let image = picture_of(shown, self.pixels)?;
        if let Some(id) = &shown.shown.frame {
            self.frame = Some(Frame { id: id.clone(), width: shown.width, height: shown.height });
        }
        Ok(image)
    }

    /// Notes which buttons the model holds after actions.
    fn note_held(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::MouseDown(body) = action {
                self.held.retain(|held| held.button != body.button);
                self.held.push(PointerButton { button: body.button.clone(), ..PointerButton::default() });
            } else if let Action::MouseUp(body) = action {
                self.held.retain(|held| held.button != body.button);
            }
        }
    }
}

/// Whether an action was refused because somebody else controls the screen.
fn is_held(error: &BatchError) -> bool {
    error.code.as_deref().and_then(ErrorCode::parse) == Some(ErrorCode::ControlHeld)
}
