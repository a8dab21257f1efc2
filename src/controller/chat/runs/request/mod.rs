//! Requests for runs, and their bounds.

use std::time::Duration;

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::conversation::{COMPUTER, Content, Message, Role};
use hotdesk_wire::chat::completion::ChatCompletionRequest;
use hotdesk_wire::chat::prompt::PromptConfig;
use hotdesk_wire::desktop::action::control::MAX_HELP_SECONDS;

mod messages;

use messages::{read_messages, user};

/// Name of the tool that runs commands.
pub const BASH: &str = "bash";
/// Tools of a run.
const TOOLS: [&str; 2] = [COMPUTER, BASH];
/// Actions of the tool `computer`, by which a request can ask for a confirmation
/// (docs.claude.com, "Computer use tool").
const COMPUTER_ACTIONS: [&str; 17] = [
    "cursor_position",
    "double_click",
    "hold_key",
    "key",
    "left_click",
    "left_click_drag",
    "left_mouse_down",
    "left_mouse_up",
    "middle_click",
    "mouse_move",
    "right_click",
    "screenshot",
    "scroll",
    "triple_click",
    "type",
    "wait",
    "zoom",
];
/// Calls of tools in a run when the request does not say.
const DEFAULT_STEPS: u32 = 100;
/// Most calls of tools in a run: half an hour at seven seconds each.
const MAX_STEPS: u32 = 250;
/// Tokens of a reply when the request does not say: what existing clients expect.
const DEFAULT_TOKENS: u32 = 4096;
/// Most tokens of a reply: what the largest models accept.
const MAX_TOKENS: u32 = 64_000;
/// Least tokens of thinking that a back end accepts (docs.claude.com, "Extended thinking").
const MIN_THINKING: u32 = 1024;
/// Tokens of a reply that an effort of thinking leaves for the answer: a call, or a page of text.
const MIN_ANSWER: u32 = 1024;
/// Tokens of thinking for the efforts of the OpenAI API. Back ends map them to their own measures.
const EFFORTS: [(&str, u32); 6] =
    [("none", 0), ("minimal", 1024), ("low", 1024), ("medium", 2048), ("high", 8192), ("xhigh", 16_384)];
/// Wait for a held screen when the request does not say, in seconds: a person signs in somewhere meanwhile.
const DEFAULT_CONTROL_WAIT: u32 = 600;
/// Longest wait for a held screen, in seconds. A run holds its conversation in memory; a thread can be
/// continued at any time.
const MAX_CONTROL_WAIT: u32 = 3600;
/// Longest wait for the help of a person while the client waits too, in seconds: few clients and proxies
/// keep a connection for longer.
const MAX_HELP_WAIT: u32 = 3600;
/// The same for a run in the background: a person may be away for a night.
const MAX_BACKGROUND_HELP_WAIT: u32 = MAX_HELP_SECONDS;
/// Most entries of `tools` and `confirm`: more than there are names.
const MAX_NAMES: usize = 100;
/// Longest name of a model, a screen or a thread, in bytes.
const MAX_NAME: usize = 200;
/// Pixels of a picture for the model: 1280 by 800. Models scale larger ones down, and then miss what they
/// click.
pub const MAX_PIXELS: u32 = 1280 * 800;
/// Least pixels of a picture: smaller ones cannot be read.
const MIN_PIXELS: u32 = 320 * 200;
/// Hundred-millionths of a dollar (micro-cents) in a cent.
const MICROCENTS: f64 = 1_000_000.0;

/// A request for a run.
#[derive(Debug)]
pub struct RunRequest {
    /// Id or instance of the computer.
    pub computer: String,
    /// Id of the screen; `None`: the boot screen.
    pub screen: Option<String>,
    /// Id of the thread to continue.
    pub thread: Option<String>,
    /// New messages, oldest first.
    pub messages: Vec<Message>,
    /// Instructions of the client, besides those of hotdesk; empty for none.
    pub instructions: String,
    /// Id of the model.
    pub model: Option<String>,
    /// Key of the request for the model's back end.
    pub key: Option<Secret>,
    /// Bounds.
    pub limits: RunLimits,
    /// Tools that the model may use.
    pub tools: AllowedTools,
    /// Tools and actions before which the run ends.
    pub confirm: Vec<String>,
    /// Whether the call that waits for it is confirmed.
    pub is_approved: bool,
    /// Whether the run continues when its client disconnects.
    pub is_background: bool,
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Most calls of tools.
    pub steps: u32,
    /// Most tokens of a reply.
    pub tokens: u32,
    /// Most tokens of thinking in a reply; `None`: the model does not think aloud.
    pub thinking: Option<u32>,
    /// Cost in millionths of a cent after which the model is not asked again.
    pub microcents: Option<i64>,
    /// Pixels of a picture for the model.
    pub pixels: u32,
    /// Longest wait while somebody else controls the screen.
    pub control_wait: Duration,
    /// Longest wait for the help of a person, in seconds.
    pub help_seconds: u32,
}

/// Tools that a model may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedTools {
    /// Screen, mouse and keyboard.
    pub computer: bool,
    /// Commands.
    pub bash: bool,
    /// Requests for the help of a person.
    pub help: bool,
}

impl RunRequest {
    /// Reads a chat completion. `key` is the client's key for the model's back end.
    ///
    /// # Errors
    /// `Invalid` for what docs/api/chat.md refuses, with a code where that page has one.
    pub fn from_completion(body: ChatCompletionRequest, key: Option<Secret>) -> Result<Self> {
        if body.computer_id.trim().is_empty() {
            return Err(Error::invalid(
                "computer_id is missing: it names the computer on which the model works",
            )
            .code(ErrorCode::MissingComputerId));
        }
        let is_approved = body.approve.unwrap_or(false);
        let (messages, instructions) = read_messages(&body.messages)?;
        let answers_nothing = messages.first().is_none_or(|first| first.role != Role::User)
            || messages.last().is_none_or(|last| last.role != Role::User);
        if messages.is_empty() && !is_approved {
            return Err(Error::invalid("messages is empty").code(ErrorCode::EmptyMessages));
        }
        if !messages.is_empty() && answers_nothing {
            let order = "messages must begin and end with a message of the user";
            return Err(Error::invalid(order).code(ErrorCode::InvalidMessageOrder));
        }
        if is_approved && body.thread_id.is_none() {
            return Err(Error::invalid("approve needs thread_id: it confirms a call of that thread"));
        }
        let is_background = body.background.unwrap_or(false);
        let max_tokens = body.max_completion_tokens.or(body.max_tokens);
        let tokens = bounded("max_tokens", max_tokens, DEFAULT_TOKENS, MAX_TOKENS)?;
        let most_help = if is_background { MAX_BACKGROUND_HELP_WAIT } else { MAX_HELP_WAIT };
        let limits = RunLimits {
            steps: bounded("max_steps", body.max_steps, DEFAULT_STEPS, MAX_STEPS)?,
            tokens,
            thinking: thinking_of(body.reasoning_effort.as_deref(), tokens)?,
            microcents: body.max_cost_cents.map(microcents).transpose()?,
            pixels: MAX_PIXELS,
            control_wait: control_wait(body.control_wait_seconds)?,
            help_seconds: up_to("help_wait_seconds", body.help_wait_seconds, most_help)?,
        };
        Ok(Self {
            computer: body.computer_id.trim().to_owned(),
            screen: short("screen", body.screen)?,
            thread: short("thread_id", body.thread_id)?,
            messages,
            instructions,
            model: short("model", body.model)?,
            key,
            limits,
            tools: AllowedTools::read(body.tools.as_deref(), limits.help_seconds)?,
            confirm: read_confirm(body.confirm)?,
            is_approved,
            is_background,
        })
    }

    /// Reads the settings of a prompt socket.
    ///
    /// # Errors
    /// `Invalid` for an empty instruction and for values out of range.
    pub fn from_prompt(config: PromptConfig) -> Result<Self> {
        if config.computer_id.trim().is_empty() {
            return Err(Error::invalid("computer_id is missing").code(ErrorCode::MissingComputerId));
        }
        if config.instruction.trim().is_empty() {
            return Err(Error::invalid("instruction is empty").code(ErrorCode::EmptyMessages));
        }
        let tokens = bounded("max_tokens", config.max_tokens, DEFAULT_TOKENS, MAX_TOKENS)?;
        let budget = config.thinking_budget.unwrap_or(MIN_THINKING).max(MIN_THINKING);
        let width = config.display_width.unwrap_or(0);
        let pixels = width.saturating_mul(config.display_height.unwrap_or(0));
        let help_seconds = up_to("help_wait_seconds", config.help_wait_seconds, MAX_HELP_WAIT)?;
        Ok(Self {
            computer: config.computer_id.trim().to_owned(),
            screen: short("screen", config.screen)?,
            thread: short("thread_id", config.thread_id)?,
            messages: vec![user(vec![Content::Text { text: config.instruction }])],
            instructions: config.system_prompt.unwrap_or_default(),
            model: short("model", config.model)?,
            key: None,
            limits: RunLimits {
                steps: bounded("max_iterations", config.max_iterations, DEFAULT_STEPS, MAX_STEPS)?,
                tokens,
                // A back end refuses a budget that leaves no tokens for the answer.
                thinking: (config.thinking_enabled == Some(true) && budget < tokens).then_some(budget),
                microcents: None,
                pixels: if pixels == 0 { MAX_PIXELS } else { pixels.clamp(MIN_PIXELS, MAX_PIXELS) },
                control_wait: control_wait(config.control_wait_seconds)?,
                help_seconds,
            },
            tools: AllowedTools { computer: true, bash: true, help: help_seconds > 0 },
            confirm: Vec::new(),
            is_approved: false,
            is_background: false,
        })
    }
}

impl AllowedTools {
    /// Reads the names of tools. A model that may wait for help has a tool for it, whatever the names.
    fn read(names: Option<&[String]>, help_seconds: u32) -> Result<Self> {
        let help = help_seconds > 0;
        let Some(names) = names else { return Ok(Self { computer: true, bash: true, help }) };
        let known = |name: &String| TOOLS.contains(&name.as_str());
        if names.len() > MAX_NAMES || !names.iter().all(known) {
            return Err(Error::invalid(format!(
                "tools must be names of tools that the model may use: {}. Functions of the client are not called",
                TOOLS.join(", ")
            )));
        }
        let has = |name: &str| names.iter().any(|allowed| allowed == name);
        Ok(Self { computer: has(COMPUTER), bash: has(BASH), help })
    }
}

fn read_confirm(names: Option<Vec<String>>) -> Result<Vec<String>> {
    let names = names.unwrap_or_default();
    let known = |name: &String| TOOLS.contains(&name.as_str()) || COMPUTER_ACTIONS.contains(&name.as_str());
    if names.len() > MAX_NAMES || !names.iter().all(known) {
        // A misspelled name would confirm nothing.
        return Err(Error::invalid(format!(
            "confirm must be names of tools ({}) or of actions of the tool {COMPUTER} ({})",
            TOOLS.join(", "),
            COMPUTER_ACTIONS.join(", ")
        )));
    }
    Ok(names)
}

fn bounded(field: &str, value: Option<u32>, default: u32, most: u32) -> Result<u32> {
    let value = value.unwrap_or(default);
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(format!("{field} must be 1 to {most}")))
}

/// A number of seconds from 0; 0 when absent.
fn up_to(field: &str, value: Option<u32>, most: u32) -> Result<u32> {
    match value.unwrap_or(0) {
        value if value <= most => Ok(value),
        _ => Err(Error::invalid(format!("{field} must be 0 to {most}"))),
    }
}

fn control_wait(seconds: Option<u32>) -> Result<Duration> {
    let seconds = Some(seconds.unwrap_or(DEFAULT_CONTROL_WAIT));
    up_to("control_wait_seconds", seconds, MAX_CONTROL_WAIT).map(|most| Duration::from_secs(most.into()))
}

/// The tokens of thinking of an effort, which are a part of the reply's `tokens`.
fn thinking_of(effort: Option<&str>, tokens: u32) -> Result<Option<u32>> {
    let Some(effort) = effort.filter(|effort| !effort.is_empty()) else { return Ok(None) };
    let Some((_, budget)) = EFFORTS.iter().find(|(name, _)| *name == effort) else {
        let names: Vec<&str> = EFFORTS.iter().map(|(name, _)| *name).collect();
        return Err(Error::invalid(format!("reasoning_effort must be one of {}", names.join(", "))));
    };
    let budget = (*budget).min(tokens.saturating_sub(MIN_ANSWER));
    Ok((budget >= MIN_THINKING).then_some(budget))
}

fn short(field: &str, text: Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.len() > MAX_NAME => {
            Err(Error::invalid(format!("{field} must be at most {MAX_NAME} bytes")))
        }
        // Some clients send an empty text for none.
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

fn microcents(cents: f64) -> Result<i64> {
    if cents > 0.0 && cents.is_finite() {
        // A cost that is out of range becomes the largest number.
        return Ok((cents * MICROCENTS) as i64);
    }
    Err(Error::invalid("max_cost_cents must be above 0"))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;

    fn read(body: Value) -> Result<RunRequest> {
        RunRequest::from_completion(serde_json::from_value(body).unwrap(), None)
    }

    fn with(name: &str, value: Value) -> Result<RunRequest> {
        let mut body = json!({"computer_id": "c", "messages": [{"role": "user", "content": "hi"}]});
        body[name] = value;
        read(body)
    }

    #[test]
    fn a_short_request_has_the_documented_defaults() {
        let request = with("temperature", json!(0.5)).unwrap();
        let limits = RunLimits {
            steps: 100,
            tokens: 4096,
            thinking: None,
            microcents: None,
            pixels: 1_024_000,
            control_wait: Duration::from_secs(600),
            help_seconds: 0,
        };
        assert_eq!(request.limits, limits);
        assert_eq!(request.tools, AllowedTools { computer: true, bash: true, help: false });
        assert!(!request.is_background && !request.is_approved && request.confirm.is_empty());
    }

    #[test]
    fn bad_requests_are_refused_with_their_code() {
        let messages = |list: Value| with("messages", list);
        let user = json!({"role": "user", "content": "hi"});
        let model = json!({"role": "assistant", "content": "yes"});
        for (request, code) in [
            (with("computer_id", json!(" ")), Some("missing_computer_id")),
            (messages(json!([])), Some("empty_messages")),
            (messages(json!([{"role": "system", "content": "be quick"}])), Some("empty_messages")),
            (messages(json!([model, user])), Some("invalid_message_order")),
            (messages(json!([user, model])), Some("invalid_message_order")),
            (messages(json!([{"role": "tool", "content": "x"}])), None),
            (messages(json!([{"role": "user", "content": ""}])), None),
            (messages(json!([{"role": "user", "content": [{"type": "input_audio"}]}])), None),
            (
                messages(json!([{"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}])),
                None,
            ),
            (with("max_steps", json!(0)), None),
            (with("max_steps", json!(251)), None),
            (with("max_tokens", json!(64_001)), None),
            (with("max_cost_cents", json!(0)), None),
            (with("tools", json!(["python"])), None),
            (with("confirm", json!(["bsah"])), None),
            (with("approve", json!(true)), None),
            (with("thread_id", json!("x".repeat(201))), None),
            (with("control_wait_seconds", json!(3601)), None),
            (with("help_wait_seconds", json!(3601)), None),
            (with("reasoning_effort", json!("much")), None),
        ] {
            let error = request.expect_err(&format!("{code:?}"));
            assert_eq!(error.code.map(ErrorCode::as_str), code, "{}", error.message);
        }
    }

    #[test]
    fn messages_of_the_openai_api_are_read() {
        let png = STANDARD.encode([0x89, b'P', b'N', b'G']);
        let request = read(json!({"computer_id": "c", "messages": [
            {"role": "system", "content": "be quick"},
            {"role": "developer", "content": [{"type": "text", "text": "be kind"}]},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "what is this?"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}"), "detail": "low"}}]},
            {"role": "assistant", "content": "a cat", "refusal": null},
            {"role": "assistant", "content": null},
            {"role": "user", "content": "no"},
        ]}))
        .unwrap();
        assert_eq!(request.instructions, "be quick\n\nbe kind");
        let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        assert!(matches!(&request.messages[0].content[1], Content::Image(image) if image.data.len() == 4));
    }

    #[test]
    fn tools_and_bounds_are_read() {
        let request = with("tools", json!(["computer"])).unwrap();
        assert_eq!(request.tools, AllowedTools { computer: true, bash: false, help: false });
        assert_eq!(with("confirm", json!(["bash", "type"])).unwrap().confirm, ["bash", "type"]);
        assert_eq!(with("max_cost_cents", json!(1.5)).unwrap().limits.microcents, Some(1_500_000));
        assert_eq!(with("max_completion_tokens", json!(7)).unwrap().limits.tokens, 7);
        let approved = read(json!({"computer_id": "c", "thread_id": "thr_1", "approve": true})).unwrap();
        assert!(approved.is_approved && approved.messages.is_empty());
    }

    #[test]
    fn waits_are_bounded_by_who_waits() {
        let waits = |fields: Value| {
            let mut request = json!({"computer_id": "c", "messages": [{"role": "user", "content": "hi"}]});
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            read(request)
                .map(|read| (read.limits.control_wait.as_secs(), read.limits.help_seconds, read.tools.help))
        };
        for (fields, expected) in [
            (json!({"control_wait_seconds": 0, "help_wait_seconds": 0}), Some((0, 0, false))),
            (json!({"control_wait_seconds": 3600, "help_wait_seconds": 3600}), Some((3600, 3600, true))),
            (json!({"help_wait_seconds": 86_400, "background": true}), Some((600, 86_400, true))),
            (json!({"help_wait_seconds": 86_401, "background": true}), None),
        ] {
            assert_eq!(waits(fields.clone()).ok(), expected, "{fields}");
        }
    }

    #[test]
    fn efforts_become_tokens_of_thinking_that_leave_some_for_the_answer() {
        for (effort, tokens, expected) in [
            (None, 4096, None),
            (Some(""), 4096, None),
            (Some("none"), 4096, None),
            (Some("low"), 4096, Some(1024)),
            (Some("medium"), 4096, Some(2048)),
            (Some("high"), 4096, Some(3072)),
            (Some("low"), 2048, Some(1024)),
            (Some("high"), 2047, None),
            (Some("high"), 64_000, Some(8192)),
            (Some("low"), 1024, None),
        ] {
            assert_eq!(thinking_of(effort, tokens).unwrap(), expected, "{effort:?} {tokens}");
        }
    }

    #[test]
    fn the_prompt_socket_has_the_bounds_of_its_client() {
        let config = |fields: Value| {
            let mut config = json!({"computer_id": "c", "instruction": "open it"});
            config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            RunRequest::from_prompt(serde_json::from_value(config).unwrap())
        };
        let client = config(json!({"display_width": 1024, "display_height": 768, "thinking_enabled": true,
            "thinking_budget": 1024, "max_tokens": 4096, "max_iterations": 100}))
        .unwrap();
        assert_eq!((client.limits.thinking, client.limits.pixels), (Some(1024), 1024 * 768));
        for (fields, thinking, pixels) in [
            (json!({}), None, MAX_PIXELS),
            (json!({"thinking_enabled": true, "max_tokens": 1000}), None, MAX_PIXELS),
            (json!({"thinking_enabled": true, "thinking_budget": 1}), Some(1024), MAX_PIXELS),
            (json!({"display_width": 9999, "display_height": 9999}), None, MAX_PIXELS),
            (json!({"display_width": 1, "display_height": 1}), None, 64_000),
        ] {
            let limits = config(fields.clone()).unwrap().limits;
            assert_eq!((limits.thinking, limits.pixels), (thinking, pixels), "{fields}");
        }
        assert!(
            config(json!({"instruction": " "})).is_err() && config(json!({"max_iterations": 251})).is_err()
        );
    }
}
