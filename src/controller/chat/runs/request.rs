//! Requests for runs: their bounds, and messages of the OpenAI API as messages of a conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use hotdesk_base::secret::Secret;
use hotdesk_domain::desktop::image::detect_media_type;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::conversation::{COMPUTER, Content, Image, Message, Role};
use hotdesk_wire::chat::completion::{ChatCompletionRequest, ChatMessage, ContentPart, MessageContent};
use hotdesk_wire::chat::prompt::PromptConfig;

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
/// Most messages of a request; with a thread, only new messages are sent.
const MAX_MESSAGES: usize = 1000;
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
/// Beginning of a picture in a URL (RFC 2397).
const DATA_URL: &str = "data:";

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
}

/// Tools that a model may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedTools {
    /// Screen, mouse and keyboard.
    pub computer: bool,
    /// Commands.
    pub bash: bool,
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
        let limits = RunLimits {
            steps: bounded("max_steps", body.max_steps, DEFAULT_STEPS, MAX_STEPS)?,
            tokens: bounded(
                "max_tokens",
                body.max_completion_tokens.or(body.max_tokens),
                DEFAULT_TOKENS,
                MAX_TOKENS,
            )?,
            thinking: None,
            microcents: body.max_cost_cents.map(microcents).transpose()?,
            pixels: MAX_PIXELS,
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
            tools: AllowedTools::read(body.tools.as_deref())?,
            confirm: read_confirm(body.confirm)?,
            is_approved,
            is_background: body.background.unwrap_or(false),
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
            },
            tools: AllowedTools { computer: true, bash: true },
            confirm: Vec::new(),
            is_approved: false,
            is_background: false,
        })
    }
}

impl AllowedTools {
    fn read(names: Option<&[String]>) -> Result<Self> {
        let Some(names) = names else { return Ok(Self { computer: true, bash: true }) };
        let known = |name: &String| TOOLS.contains(&name.as_str());
        if names.len() > MAX_NAMES || !names.iter().all(known) {
            return Err(Error::invalid(format!(
                "tools must be names of tools that the model may use: {}. Functions of the client are not called",
                TOOLS.join(", ")
            )));
        }
        let has = |name: &str| names.iter().any(|allowed| allowed == name);
        Ok(Self { computer: has(COMPUTER), bash: has(BASH) })
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

fn user(content: Vec<Content>) -> Message {
    Message { role: Role::User, content }
}

/// Returns the messages of the conversation, and the instructions in messages of the system.
fn read_messages(messages: &[ChatMessage]) -> Result<(Vec<Message>, String)> {
    if messages.len() > MAX_MESSAGES {
        return Err(Error::invalid(format!(
            "messages must be at most {MAX_MESSAGES}: continue a thread instead"
        )));
    }
    let (mut read, mut instructions) = (Vec::new(), Vec::new());
    for message in messages {
        let content = read_content(message.content.as_ref())?;
        match message.role.as_str() {
            "user" if content.is_empty() => {
                return Err(Error::invalid("a message of the user has no content"));
            }
            "user" => read.push(user(content)),
            "assistant" if content.iter().any(|part| matches!(part, Content::Image(_))) => {
                return Err(Error::invalid("only messages of the user have pictures"));
            }
            "assistant" if content.is_empty() => {}
            "assistant" => read.push(Message { role: Role::Assistant, content }),
            "system" | "developer" => {
                let text = |part| match part {
                    Content::Text { text } => Some(text),
                    Content::Image(_)
                    | Content::Thinking { .. }
                    | Content::RedactedThinking { .. }
                    | Content::ToolCall(_)
                    | Content::ToolResult(_) => None,
                };
                instructions.extend(content.into_iter().filter_map(text));
            }
            _ => return Err(Error::invalid("role must be user, assistant, system or developer")),
        }
    }
    Ok((read, instructions.join("\n\n")))
}

/// Returns the parts of a message. Empty texts are left out, because back ends refuse them.
fn read_content(content: Option<&MessageContent>) -> Result<Vec<Content>> {
    let text = |text: &str| (!text.trim().is_empty()).then(|| Content::Text { text: text.to_owned() });
    let part = |part: &ContentPart| match (part.kind.as_str(), &part.text, &part.image_url) {
        ("text", Some(words), _) => Ok(text(words)),
        ("image_url", _, Some(image)) => picture(&image.url).map(|image| Some(Content::Image(image))),
        _ => Err(Error::invalid(
            "a part of a message must be a text with text, or an image_url with image_url",
        )),
    };
    match content {
        None => Ok(Vec::new()),
        Some(MessageContent::Text(words)) => Ok(text(words).into_iter().collect()),
        Some(MessageContent::Parts(parts)) => {
            let parts: Vec<Option<Content>> = parts.iter().map(part).collect::<Result<_>>()?;
            Ok(parts.into_iter().flatten().collect())
        }
    }
}

/// Reads a picture of the client. URLs of servers are refused: the controller fetches nothing for a model.
fn picture(url: &str) -> Result<Image> {
    let wrong = || Error::invalid("a picture must be data:image/png;base64, and a PNG, JPEG or WebP file");
    let (kind, encoded) =
        url.strip_prefix(DATA_URL).and_then(|data| data.split_once(',')).ok_or_else(wrong)?;
    if !kind.ends_with(";base64") {
        return Err(wrong());
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| wrong())?;
    let media_type = detect_media_type(&bytes).ok_or_else(wrong)?;
    Ok(Image { media_type: media_type.to_owned(), data: Bytes::from(bytes) })
}

#[cfg(test)]
mod tests {
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
        let limits =
            RunLimits { steps: 100, tokens: 4096, thinking: None, microcents: None, pixels: 1_024_000 };
        assert_eq!(request.limits, limits);
        assert_eq!(request.tools, AllowedTools { computer: true, bash: true });
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
        assert_eq!(request.tools, AllowedTools { computer: true, bash: false });
        assert_eq!(with("confirm", json!(["bash", "type"])).unwrap().confirm, ["bash", "type"]);
        assert_eq!(with("max_cost_cents", json!(1.5)).unwrap().limits.microcents, Some(1_500_000));
        assert_eq!(with("max_completion_tokens", json!(7)).unwrap().limits.tokens, 7);
        let approved = read(json!({"computer_id": "c", "thread_id": "thr_1", "approve": true})).unwrap();
        assert!(approved.is_approved && approved.messages.is_empty());
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
