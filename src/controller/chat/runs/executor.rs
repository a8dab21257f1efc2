//! Execution of a model's calls on a computer: input with the settled screen in one round trip, and commands.
//!
//! The calls take the path of the REST API: access check, secrets, the computer's guest. Each call checks
//! access again, because a run may take an hour.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::RunServices;
use super::request::{AllowedTools, BASH};
use super::tools::{DEFAULT_COMMAND_SECONDS, MAX_COMMAND_SECONDS};
use crate::web::request_lease::RequestLease;
use hotdesk_domain::desktop::image::detect_media_type;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_guest::{ActionReply, ConditionalScreenshot, Guest, QUICK_TIMEOUT};
use hotdesk_http::image_headers::IfNoneMatch;
use hotdesk_model::conversation::{COMPUTER, Image, ToolCall};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::{Action, PointerButton, ScreenQuery};
use hotdesk_wire::desktop::batch::{Batch, BatchError, BatchResult};
use hotdesk_wire::desktop::effect::{ActionResult, Options, Settle};
use hotdesk_wire::desktop::screenshot::{ScreenshotBase64, ScreenshotQuery};
use hotdesk_wire::desktop::vendor::AnthropicAction;
use hotdesk_wire::programs::exec::{Bash, BashResult};

/// Time without a change after which a screen counts as settled, in milliseconds: six frames of a program
/// that draws an animation.
const QUIET_MS: u32 = 100;
/// Longest wait for a settled screen, in milliseconds. A film or a spinner never settles.
const SETTLE_TIMEOUT_MS: u32 = 3000;
/// Largest picture, in bytes: back ends accept at least 5 MB as base64, and a model scales larger ones down
/// anyway.
const MAX_IMAGE: u32 = 1_500_000;
/// Quality of the pictures: small texts stay sharp, at a third of the bytes of a PNG.
const QUALITY: u8 = 85;
/// Longest time of a call: the longest wait of a model, and a margin.
const MAX_CALL: Duration = Duration::from_secs(330);
/// Longest result of a call for the model, in bytes: about 4,000 tokens.
const MAX_TEXT: usize = 16 * 1024;
/// Longest output of a command in its result: the rest is for the lines about its end and about what was left
/// out.
const MAX_OUTPUT: usize = MAX_TEXT - 128;
/// Shortest value of a secret that is hidden in outputs, in bytes. A shorter one occurs in words and numbers:
/// hiding it would make outputs useless, and would itself tell the value.
const MIN_HIDDEN: usize = 4;
/// Failures of the computer in a row after which a run ends: two may be a restart of its agent.
const MAX_FAILURES: u32 = 3;
/// Text in place of a secret.
const REDACTED: &str = "[redacted]";
/// Result of an action whose target has changed since the picture.
const STALE: &str = "The screen has changed at this place since the picture that you acted on. Nothing was done. Look at \
                     the new picture and act again.";

/// Result of a call.
#[derive(Debug, Default)]
pub struct CallResult {
    /// Text for the model.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Picture for the model.
    pub image: Option<Image>,
    /// Observed effect of the last action.
    pub effect: Option<Value>,
}

/// The picture that coordinates of calls refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its id at the agent.
    id: String,
    /// Its width, in pixels.
    pub width: u32,
    /// Its height, in pixels.
    pub height: u32,
}

/// Executes the calls of a run.
pub struct Executor {
    services: RunServices,
    caller: Caller,
    lease: Arc<RequestLease>,
    /// Id of the computer.
    computer: String,
    screen: Option<String>,
    pixels: u32,
    allowed: AllowedTools,
    frame: Option<Frame>,
    /// Id of the picture that the next call refers to, where that is not the newest one.
    seen: Option<String>,
    /// Whether the last action was refused because of a change on the screen. The next one is not: a caret or
    /// a clock that changes all the time would refuse every action beside it.
    was_stale: bool,
    /// Failures of the computer in a row.
    failures: u32,
    /// Buttons that the model holds down.
    held: Vec<PointerButton>,
}

/// Which computer and screen a run works on, and by whose right.
pub struct ExecutorTarget {
    /// The caller; it may change the computer.
    pub caller: Caller,
    /// Leases on its credential and its memberships.
    pub lease: Arc<RequestLease>,
    /// Id of the computer.
    pub computer: String,
    /// Id of the screen; `None`: the boot screen.
    pub screen: Option<String>,
    /// Most pixels of a picture.
    pub pixels: u32,
    /// Tools that the model may use.
    pub allowed: AllowedTools,
}

/// Arguments of the tool `bash`.
#[derive(Debug, Deserialize)]
struct BashCall {
    command: String,
    #[serde(default)]
    timeout: Option<f64>,
}

impl CallResult {
    fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

impl Executor {
    /// Makes the executor of a run.
    pub fn new(services: RunServices, target: ExecutorTarget) -> Self {
        let ExecutorTarget { caller, lease, computer, screen, pixels, allowed } = target;
        Self {
            services,
            caller,
            lease,
            computer,
            screen,
            pixels,
            allowed,
            frame: None,
            seen: None,
            was_stale: false,
            failures: 0,
            held: Vec::new(),
        }
    }

    /// The newest picture of the whole screen.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// The id of the newest picture.
    pub fn frame_id(&self) -> Option<&str> {
        self.frame.as_ref().map(|frame| frame.id.as_str())
    }

    /// Says which picture the model saw when it made the next call: coordinates are pixels of it, and the
    /// call is refused when its target has changed since.
    pub fn set_seen(&mut self, frame: Option<String>) {
        self.seen = frame;
    }

    /// Takes a picture of the screen. Returns it with the id of the screen.
    ///
    /// # Errors
    /// Those of [`Directory::find_computer`](crate::computers::directory::Directory::find_computer), of
    /// `Fleet::guest` and of the agent.
    pub async fn look(&mut self) -> Result<(Image, String)> {
        let (computer, guest) = self.reach().await?;
        let query = ScreenshotQuery { screen: self.screen.clone(), ..self.picture() };
        let size = computer.hardware.resolution.size;
        let taken = guest.screenshot(&query, size, &IfNoneMatch::default()).await?;
        let ConditionalScreenshot::Image(image) = taken else {
            return Err(Error::internal("the agent returned no image for an unconditional request"));
        };
        let Some(headers) = &image.headers else {
            return Err(Error::internal("the computer's agent sent an image without its metadata"));
        };
        self.frame =
            Some(Frame { id: headers.frame.to_string(), width: headers.width, height: headers.height });
        let picture = Image { media_type: image.mime_type.to_owned(), data: image.bytes };
        Ok((picture, headers.screen.clone()))
    }

    /// Executes a call. The result has a picture if `wants_picture` or if the call asks for one. A call that
    /// cannot be executed has a result that says why.
    ///
    /// # Errors
    /// The caller lost access to the computer, the computer does not run, or it failed several times in a row.
    pub async fn execute(
        &mut self,
        call: &ToolCall,
        is_first: bool,
        wants_picture: bool,
    ) -> Result<CallResult> {
        let seen = self.seen.take();
        let result = match call.name.as_str() {
            COMPUTER if self.allowed.computer => {
                let frame = seen.or_else(|| self.frame_id().map(str::to_owned));
                self.act(&call.input, frame, is_first, wants_picture).await?
            }
            BASH if self.allowed.bash => self.run_command(&call.input).await?,
            name => CallResult::failed(format!("There is no tool {name}")),
        };
        Ok(CallResult { text: shorten(result.text, MAX_TEXT), ..result })
    }

    /// Releases the buttons that the model has left pressed. A computer that cannot be reached releases them
    /// by itself after a minute.
    pub async fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        let actions = held.into_iter().map(Action::MouseUp).collect();
        if let Err(error) = self.send(actions, None).await {
            tracing::info!(
                computer = self.computer,
                error = format_args!("{error:#}"),
                "could not release the buttons of a run that ended"
            );
        }
    }

    async fn reach(&self) -> Result<(Computer, Guest)> {
        let finding = self.services.directory.find_computer(&self.caller, &self.computer);
        let computer = self.lease.recording(finding).await?;
        let guest = self.services.fleet.guest(&computer).await?;
        Ok((computer, guest))
    }

    /// Options of a picture for the model.
    fn picture(&self) -> ScreenshotQuery {
        ScreenshotQuery {
            format: Some("jpeg".to_owned()),
            quality: Some(QUALITY),
            max_pixels: Some(self.pixels),
            max_bytes: Some(MAX_IMAGE),
            ..ScreenshotQuery::default()
        }
    }

    /// Sends actions after filling in their secrets. `groups` is [`Batch::groups`].
    async fn send(&self, mut actions: Vec<Action>, groups: Option<Vec<u32>>) -> Result<BatchResult> {
        let (computer, guest) = self.reach().await?;
        self.services.secrets.fill(&self.caller, &computer, &mut actions).await?;
        let timeout = QUICK_TIMEOUT + actions.iter().map(Action::duration).sum::<Duration>().min(MAX_CALL);
        let batch = Batch { actions, groups, ..Batch::default() };
        let query = ScreenQuery { screen: self.screen.clone() };
        let reply: ActionReply<BatchResult> =
            guest.act("/actions", query, &batch, None, None, timeout).await?;
        Ok(reply.answer)
    }

    async fn act(
        &mut self,
        input: &Value,
        frame: Option<String>,
        is_first: bool,
        wants_picture: bool,
    ) -> Result<CallResult> {
        let read =
            AnthropicAction::read(input.clone()).and_then(|action| action.into_actions(frame.as_deref()));
        let mut actions = match read {
            Ok(actions) => actions,
            Err(why) => return Ok(CallResult::failed(format!("The call is invalid: {why}"))),
        };
        // Only the first call of a turn: later ones follow changes that the model expects.
        let refuses_stale = is_first && frame.is_some() && !self.was_stale;
        let own = actions.len();
        let sees_part = prepare(&mut actions, refuses_stale, wants_picture, &self.picture());
        self.note_held(&actions);
        let groups = groups(own, actions.len());
        let done = match self.send(actions, Some(groups)).await {
            Ok(done) => done,
            Err(error) => return self.unsent(error),
        };
        self.failures = 0;
        self.was_stale = false;
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
        result.image = match shown {
            Some(shown) if sees_part => Some(picture_of(&shown)?),
            Some(shown) => Some(self.note_frame(&shown)?),
            None if wants_picture || result.is_error => self.look_again(&mut result).await?,
            None => None,
        };
        Ok(result)
    }

    /// Takes a picture after an action that returned none.
    async fn look_again(&mut self, result: &mut CallResult) -> Result<Option<Image>> {
        match self.look().await {
            Ok((image, _)) => Ok(Some(image)),
            Err(error) => {
                let unsent = self.unsent(error)?;
                result.is_error = true;
                result.text = format!("{}\nThere is no picture: {}", result.text, unsent.text);
                Ok(None)
            }
        }
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

    /// Converts a failure to send a call: a refusal is a result for the model, and so are two failures of the
    /// computer in a row.
    ///
    /// # Errors
    /// The failure, when the run cannot go on.
    fn unsent(&mut self, error: Error) -> Result<CallResult> {
        match error.kind {
            Kind::Invalid | Kind::TooLarge | Kind::Unprocessable => {}
            // A screen or a secret that does not exist; a computer that was deleted has no code.
            Kind::NotFound if error.code.is_some() => {}
            Kind::Internal | Kind::TimedOut | Kind::Unavailable if self.failures + 1 < MAX_FAILURES => {
                self.failures += 1;
                tracing::info!(
                    computer = self.computer,
                    error = format_args!("{error:#}"),
                    "a call of a run failed"
                );
            }
            Kind::Unauthenticated
            | Kind::PaymentRequired
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::Conflict
            | Kind::Mismatched
            | Kind::SlowRequest
            | Kind::UnsupportedMedia
            | Kind::RateLimited
            | Kind::Internal
            | Kind::Unavailable
            | Kind::BadGateway
            | Kind::TimedOut => return Err(error),
        }
        Ok(CallResult::failed(error.message))
    }

    fn note_frame(&mut self, shown: &ScreenshotBase64) -> Result<Image> {
        let image = picture_of(shown)?;
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

    async fn run_command(&mut self, input: &Value) -> Result<CallResult> {
        let call: BashCall = match serde_json::from_value(input.clone()) {
            Ok(call) => call,
            Err(error) => return Ok(CallResult::failed(format!("The call is invalid: {error}"))),
        };
        let timeout = call.timeout.unwrap_or(DEFAULT_COMMAND_SECONDS).clamp(1.0, MAX_COMMAND_SECONDS);
        let body = Bash {
            command: call.command,
            timeout: Some(timeout),
            screen: self.screen.clone(),
            ..Bash::default()
        };
        let (computer, guest) = match self.reach().await {
            Ok(reached) => reached,
            Err(error) => return self.unsent(error),
        };
        // Before the command: without them, its output could not be shown.
        let stored = match self.services.secrets.values(&self.caller, &computer).await {
            Ok(stored) => stored,
            Err(error) => return self.unsent(error),
        };
        let allowed = QUICK_TIMEOUT + Duration::from_secs_f64(timeout);
        let sent = guest.act("/bash", (), &body, None, None, allowed);
        let ran: BashResult = match sent.await {
            Ok(ActionReply { answer, .. }) => answer,
            Err(error) => return self.unsent(error),
        };
        self.failures = 0;
        let mut hidden: Vec<&str> = stored.iter().map(|secret| secret.reveal().trim()).collect();
        hidden.extend([computer.vnc_password.reveal(), computer.agent_token.reveal()]);
        let output = redact(ran.output, hidden);
        let end = if ran.timeout {
            format!("[killed after {timeout} seconds]")
        } else {
            format!("[exit code {}]", ran.exit_code)
        };
        let text = format!("{}\n{end}", shorten(output, MAX_OUTPUT).trim_end());
        Ok(CallResult { text, is_error: ran.timeout, ..CallResult::default() })
    }
}

/// The groups of a call's `own` actions, which count as one so that its keys are released when it fails, and
/// of those that were added to them: `all` together.
fn groups(own: usize, all: usize) -> Vec<u32> {
    // A call has at most 16 actions.
    let own = u32::try_from(own).unwrap_or(u32::MAX);
    let added = all.saturating_sub(own as usize);
    std::iter::once(own).chain(std::iter::repeat_n(1, added)).collect()
}

/// Completes actions before they are sent: the first with a position refuses a changed target, and the last
/// waits until the screen has settled and returns a picture. Returns whether the picture shows only a part of
/// the screen.
fn prepare(
    actions: &mut Vec<Action>,
    refuses_stale: bool,
    wants_picture: bool,
    picture: &ScreenshotQuery,
) -> bool {
    let mut placed = actions.iter_mut().filter_map(options_mut).filter(|options| options.frame.is_some());
    if refuses_stale && let Some(options) = placed.next() {
        options.refuse_stale = Some(true);
    }
    let mut sees_part = false;
    let mut sees = false;
    for action in actions.iter_mut() {
        if let Action::Screenshot(query) = action {
            (sees, sees_part) = (true, false);
            *query = picture.clone();
        } else if let Action::Zoom(body) = action {
            (sees, sees_part) = (true, true);
            body.screenshot = Some(picture.clone());
        }
    }
    if sees {
        return sees_part;
    }
    let mut screenshot = wants_picture.then(|| picture.clone());
    // The agent returns what a group's main action saw, and not what the release of its keys did.
    let releases = matches!(actions.as_slice(), [_, .., Action::KeyUp(_)]);
    let added = if releases { screenshot.take() } else { None };
    match actions.last_mut().and_then(options_mut) {
        Some(options) => {
            let settle = Settle {
                quiet_ms: Some(QUIET_MS),
                timeout_ms: Some(SETTLE_TIMEOUT_MS),
                screenshot,
                ..Settle::default()
            };
            options.settle = Some(settle);
            actions.extend(added.map(Action::Screenshot));
        }
        // A wait has settled by itself.
        None => actions.extend(screenshot.map(Action::Screenshot)),
    }
    false
}

/// The common options of an action; `None` for actions that only observe or wait.
fn options_mut(action: &mut Action) -> Option<&mut Options> {
    match action {
        Action::Click(body) => Some(&mut body.options),
        Action::Move(body) => Some(&mut body.options),
        Action::MouseDown(body) | Action::MouseUp(body) => Some(&mut body.options),
        Action::Drag(body) => Some(&mut body.options),
        Action::Scroll(body) => Some(&mut body.options),
        Action::Type(body) => Some(&mut body.options),
        Action::Key(body) | Action::KeyDown(body) | Action::KeyUp(body) => Some(&mut body.options),
        Action::Wait(_)
        | Action::WaitStable(_)
        | Action::WaitChange(_)
        | Action::Screenshot(_)
        | Action::Zoom(_)
        | Action::CursorPosition(_) => None,
    }
}

/// Decodes a picture of the agent, which is not trusted.
fn picture_of(shown: &ScreenshotBase64) -> Result<Image> {
    let wrong = |why: &str| Error::failed("The computer's agent sent an invalid picture").context(why);
    let bytes = STANDARD.decode(&shown.image).map_err(|_| wrong("not base64"))?;
    if bytes.len() > MAX_IMAGE as usize {
        return Err(wrong("larger than requested"));
    }
    let media_type = detect_media_type(&bytes).ok_or_else(|| wrong("no image"))?;
    Ok(Image { media_type: media_type.to_owned(), data: Bytes::from(bytes) })
}

/// Replaces secrets in a text for the model, the longest first: one may be a part of another.
fn redact(text: String, mut secrets: Vec<&str>) -> String {
    secrets.retain(|secret| secret.len() >= MIN_HIDDEN);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(
        text,
        |text, secret| {
            if text.contains(secret) { text.replace(secret, REDACTED) } else { text }
        },
    )
}

/// Removes the middle of a text that is longer than `most` bytes.
fn shorten(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}\n[... {} bytes left out ...]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actions(list: Value) -> Vec<Action> {
        serde_json::from_value(list).unwrap()
    }

    fn prepared(list: Value, refuses_stale: bool, wants_picture: bool) -> (Value, bool) {
        let mut actions = actions(list);
        let picture = ScreenshotQuery { max_pixels: Some(100), ..ScreenshotQuery::default() };
        let sees_part = prepare(&mut actions, refuses_stale, wants_picture, &picture);
        (serde_json::to_value(&actions).unwrap(), sees_part)
    }

    #[test]
    fn the_last_action_settles_and_shows_the_screen() {
        let settle = json!({"quiet_ms": 100, "timeout_ms": 3000});
        let seen = json!({"quiet_ms": 100, "timeout_ms": 3000, "screenshot": {"max_pixels": 100}});
        let shot = json!({"action": "screenshot", "max_pixels": 100});
        let key = json!({"action": "key", "key": "a"});
        for (list, stale, picture, expected, part) in [
            (json!([key]), true, false, json!([{"action": "key", "key": "a", "settle": settle}]), false),
            (
                json!([{"action": "click", "x": 1.0, "y": 2.0, "frame": "f"}]),
                true,
                true,
                json!([{"action": "click", "x": 1.0, "y": 2.0, "frame": "f", "refuse_stale": true, "settle": seen}]),
                false,
            ),
            (
                json!([key, {"action": "wait", "seconds": 1.0}]),
                false,
                true,
                json!([key, {"action": "wait", "seconds": 1.0}, shot]),
                false,
            ),
            (json!([{"action": "screenshot"}]), false, false, json!([shot]), false),
            (
                json!([{"action": "zoom", "x": 0.0, "y": 0.0, "width": 9.0, "height": 9.0}]),
                true,
                true,
                json!([{"action": "zoom", "x": 0.0, "y": 0.0, "width": 9.0, "height": 9.0,
                    "screenshot": {"max_pixels": 100}}]),
                true,
            ),
        ] {
            assert_eq!(prepared(list.clone(), stale, picture), (expected, part), "{list}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secrets = vec!["hunter2", "", "a", "hunter2 hunter2"];
        let shown = redact("a hunter2 b hunter2 hunter2".to_owned(), secrets);
        assert_eq!(shown, "a [redacted] b [redacted]");
    }

    #[test]
    fn the_actions_of_a_call_are_one_group() {
        assert_eq!([groups(1, 1), groups(3, 4), groups(1, 2)], [vec![1], vec![3, 1], vec![1, 1]]);
        let down = json!({"action": "key_down", "key": "ctrl"});
        let click = json!({"action": "click", "x": 1.0, "y": 2.0, "frame": "f"});
        let up = json!({"action": "key_up", "key": "ctrl"});
        let (sent, _) = prepared(json!([down, click, up]), true, true);
        assert_eq!(sent[1]["refuse_stale"], true, "the first with a position: {sent}");
        assert_eq!((&sent[2]["settle"]["quiet_ms"], &sent[3]["action"]), (&json!(100), &json!("screenshot")));
        assert!(sent[2]["settle"]["screenshot"].is_null(), "{sent}");
    }

    #[test]
    fn a_picture_of_an_agent_is_checked() {
        let shown = |image: &str| ScreenshotBase64 {
            success: true,
            image: image.to_owned(),
            mime_type: "text/html".to_owned(),
            width: 1,
            height: 1,
            shown: Default::default(),
        };
        let png = STANDARD.encode([0x89, b'P', b'N', b'G']);
        assert_eq!(picture_of(&shown(&png)).unwrap().media_type, "image/png");
        let large = STANDARD.encode([&[0x89, b'P', b'N', b'G'][..], &vec![0; MAX_IMAGE as usize]].concat());
        for bad in ["", "!", "PHN2Zz4=", &large] {
            assert!(picture_of(&shown(bad)).is_err(), "{:?}", &bad[..bad.len().min(20)]);
        }
    }
}
