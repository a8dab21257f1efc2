//! Chat completions as requests for runs.

use super::bounds::{
    DEFAULT_STEPS, DEFAULT_TOKENS, MAX_HELP_WAIT, MAX_PIXELS, MAX_STEPS, MAX_TOKENS, bounded, control_wait,
    microcents, short, thinking_of, up_to,
};
use super::messages::read_messages;
use super::tools::read_confirm;
use super::{AllowedTools, RunLimits, RunRequest};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::conversation::Role;
use hotdesk_wire::chat::completion::ChatCompletionRequest;
use hotdesk_wire::desktop::action::control::MAX_HELP_SECONDS;

/// Longest wait for the help of a person in a run in the background, in seconds: a person may be away for a
/// night.
const MAX_BACKGROUND_HELP_WAIT: u32 = MAX_HELP_SECONDS;

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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hotdesk_model::conversation::Content;
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
}
