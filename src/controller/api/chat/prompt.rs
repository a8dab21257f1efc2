//! Prompt socket: an instruction, and the events of the run that follows it (docs/api/chat.md#prompt-socket).

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::api_router::ApiRouter;
use crate::chat::runs::{EndReason, RunEnd, RunEvent, RunHandle, RunRequest};
use crate::identity::auth::socket_auth;
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY, NORMAL};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::error_response;
use hotdesk_http::socket::{CloseReason, PeerGone, PeerMessage, Receiver, Sender, Upgrade};
use hotdesk_model::conversation::{COMPUTER, Content, Message, Role, ToolCall};
use hotdesk_wire::chat::completion::RunProgress;
use hotdesk_wire::chat::prompt::{PromptConfig, PromptEvent, PromptRequest, PromptResult, ToolUse};

/// The socket's route, also its name in the audit log.
const ROUTE: &str = "/ws/prompt";
/// Time in which a client sends its first message; clients send it when the socket opens.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest message of a client, in bytes: an instruction and a system prompt of many pages.
const MAX_REQUEST: usize = 256 * 1024;
/// Longest messages in a result, in bytes: clients keep it in memory.
const MAX_MESSAGES: usize = 1024 * 1024;

/// Returns the route of the socket. The OpenAPI document has no sockets.
pub fn router<R: ApiRouter>() -> R {
    R::new().route(ROUTE, get(open))
}

/// `GET /ws/prompt?token=<API key>`.
async fn open(
    State(app): State<AppState>,
    source: Source,
    RawQuery(query): RawQuery,
    upgrade: Upgrade,
    parts: Parts,
) -> error_response::Result<Response> {
    let query: Vec<(String, String)> = serde_urlencoded::from_str(query.as_deref().unwrap_or_default())
        .map_err(|_| Error::invalid("the query is not name=value pairs"))?;
    let key = socket_auth::token(&parts.headers, &query);
    let admitted = match app.sockets.refused_page(&upgrade) {
        Some(_) => Err(Error::forbidden("pages of other hosts may not open this socket")),
        None => admit(&app, key.as_deref(), source).await,
    };
    let parts = without_secrets(parts);
    Ok(app.sockets.clone().open(upgrade, "prompt", move |sender, receiver| async move {
        match admitted {
            Ok(caller) => serve(&app, &caller, parts, (&sender, receiver)).await,
            Err(error) => refuse(&sender, &error).await,
        }
    })?)
}

/// The parts of the request that the audit log reads.
fn without_secrets(mut parts: Parts) -> Parts {
    parts.uri = ROUTE.parse().unwrap_or_default();
    parts.headers.remove(axum::http::header::AUTHORIZATION);
    parts
}

/// Identifies the caller by its API key. Wrong keys count as for requests.
async fn admit(app: &AppState, key: Option<&str>, source: Source) -> Result<Caller> {
    let key = key.ok_or_else(|| Error::unauthenticated("Missing API key: connect with ?token="))?;
    match app.authenticator.caller_of_key(key).await {
        Ok(caller) => {
            app.wrong_credentials.forget(source);
            // The run may do what a POST may.
            Ok(caller.for_change())
        }
        Err(error) if error.kind == Kind::Unauthenticated => {
            match app.wrong_credentials.note(source, "Invalid API key") {
                Some(_) => Err(Error::rate_limited(1)),
                None => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Sends an error and returns how to close the socket: the client takes a close alone for a success.
async fn refuse(sender: &Sender, error: &Error) -> CloseReason {
    // A client that is gone needs no reason.
    let _gone = sender.json(&PromptEvent::Error(error.message.clone())).await;
    let failure = match error.kind {
        Kind::Unauthenticated | Kind::Forbidden => Failure::Unauthenticated,
        Kind::NotFound => Failure::Unknown,
        Kind::Invalid
        | Kind::PaymentRequired
        | Kind::Conflict
        | Kind::Mismatched
        | Kind::Unprocessable
        | Kind::TooLarge
        | Kind::SlowRequest
        | Kind::UnsupportedMedia
        | Kind::RateLimited
        | Kind::Internal
        | Kind::Unavailable
        | Kind::BadGateway
        | Kind::TimedOut => Failure::Failed,
    };
    CloseReason::new(Channel::Events.close_code(failure), error.message.clone())
}

/// Serves a client until its run has ended or it disconnects.
async fn serve(
    app: &AppState,
    caller: &Caller,
    parts: Parts,
    (sender, mut receiver): (&Sender, Receiver),
) -> CloseReason {
    let config = match timeout(START_TIMEOUT, first_message(sender, &mut receiver)).await {
        Err(_) => return refuse(sender, &Error::slow_request("no start message within 10 seconds")).await,
        Ok(None) => return CloseReason::new(NORMAL, ""),
        Ok(Some(Err(error))) => return refuse(sender, &error).await,
        Ok(Some(Ok(config))) => config,
    };
    let stop = app.sockets.stopping();
    let starting = async {
        let request = RunRequest::from_prompt(config)?;
        app.runs.start(caller, request).await
    };
    let starting = audit::record_call(app, caller, &parts, ROUTE, starting);
    let started = tokio::select! {
        started = starting => started,
        // Starting may take as long as the computer needs to wake.
        () = disconnected(sender, &mut receiver) => return CloseReason::new(NORMAL, ""),
        () = stop.cancelled() => return CloseReason::new(GOING_AWAY, "server shutting down"),
    };
    let run = match started {
        Ok(run) => run,
        Err(error) => return refuse(sender, &error).await,
    };
    tokio::select! {
        closing = report(sender, run) => {
            let is_stopping = stop.is_cancelled();
            if is_stopping { CloseReason::new(GOING_AWAY, "server shutting down") } else { closing }
        }
        () = disconnected(sender, &mut receiver) => CloseReason::new(NORMAL, ""),
    }
}

/// Waits for the message that starts the run; `None` when the client disconnects.
async fn first_message(sender: &Sender, receiver: &mut Receiver) -> Option<Result<PromptConfig>> {
    loop {
        match read(&receiver.receive().await?) {
            Ok(PromptRequest::Start { config }) => return Some(Ok(*config)),
            Ok(PromptRequest::Ping) => sender.json(&PromptEvent::Pong).await.ok()?,
            Ok(PromptRequest::Stop) => return None,
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Answers pings until the client disconnects or ends the run.
async fn disconnected(sender: &Sender, receiver: &mut Receiver) {
    while let Some(message) = receiver.receive().await {
        match read(&message) {
            Ok(PromptRequest::Ping) => {
                if sender.json(&PromptEvent::Pong).await.is_err() {
                    return;
                }
            }
            Ok(PromptRequest::Stop) => return,
            // One socket has one run.
            Ok(PromptRequest::Start { config: _ }) | Err(_) => {}
        }
    }
}

fn read(message: &PeerMessage) -> Result<PromptRequest> {
    let text = match message {
        PeerMessage::Text(text) if text.len() <= MAX_REQUEST => text.as_str(),
        PeerMessage::Text(_) => {
            return Err(Error::too_large(format!("a message has at most {MAX_REQUEST} bytes")));
        }
        PeerMessage::Binary(_) => return Err(Error::invalid("messages are JSON texts")),
    };
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("invalid message: {error}")))
}

/// Sends the events of a run, then its result.
async fn report(sender: &Sender, mut run: RunHandle) -> CloseReason {
    let sent = async {
        let started = format!("Running on {}, thread {}", run.model, run.thread);
        sender.json(&PromptEvent::Status(started)).await?;
        send_events(sender, &mut run).await
    };
    match sent.await {
        Ok(closing) => closing,
        Err(PeerGone) => CloseReason::new(NORMAL, ""),
    }
}

async fn send_events(sender: &Sender, run: &mut RunHandle) -> std::result::Result<CloseReason, PeerGone> {
    // Clients show each message on a line of its own, so a turn's text is one message.
    let mut turn = TurnText::default();
    while let Some(event) = run.events.recv().await {
        match event {
            RunEvent::Text(text) => turn.text.push_str(&text),
            RunEvent::Thinking(text) => turn.thinking.push_str(&text),
            RunEvent::Turn(number) => {
                turn.send(sender).await?;
                sender.json(&PromptEvent::Iteration(number)).await?;
            }
            RunEvent::Call(call) => {
                turn.send(sender).await?;
                sender.json(&PromptEvent::ToolUse(tool_use(call))).await?;
            }
            RunEvent::Progress(progress) => {
                turn.send(sender).await?;
                // Clients that do not know the message show the text.
                sender.json(&PromptEvent::Status(status_of(&progress))).await?;
                sender.json(&PromptEvent::Progress(progress)).await?;
            }
            RunEvent::Failed(error) => {
                turn.send(sender).await?;
                return Ok(refuse(sender, &error).await);
            }
            RunEvent::Ended(end) => {
                turn.send(sender).await?;
                sender.json(&PromptEvent::Result(result_of(&end))).await?;
                return Ok(CloseReason::new(NORMAL, ""));
            }
        }
    }
    Ok(refuse(sender, &Error::internal("a run ended without an event")).await)
}

/// Texts of a turn that are not sent yet; a reply is bounded.
#[derive(Default)]
struct TurnText {
    thinking: String,
    text: String,
}

impl TurnText {
    async fn send(&mut self, sender: &Sender) -> std::result::Result<(), PeerGone> {
        let Self { thinking, text } = std::mem::take(self);
        if !thinking.trim().is_empty() {
            sender.json(&PromptEvent::Thinking(thinking)).await?;
        }
        if !text.trim().is_empty() {
            sender.json(&PromptEvent::Text(text.trim_start().to_owned())).await?;
        }
        Ok(())
    }
}

/// What a run waits for, for people.
fn status_of(progress: &RunProgress) -> String {
    match (progress.waiting_for.is_some(), &progress.message) {
        (true, Some(message)) => format!("The model asks for help: {message}"),
        (true, None) => "Somebody else controls the screen: the run waits until it is free".to_owned(),
        (false, _) => "The run goes on".to_owned(),
    }
}

/// A call in the form of the client: the action and its other arguments, or the tool and all of its
/// arguments.
fn tool_use(call: ToolCall) -> ToolUse {
    let mut params = call.input;
    let action = match params.as_object_mut() {
        Some(fields) if call.name == COMPUTER => fields.remove("action"),
        Some(_) | None => None,
    };
    let action = action.as_ref().and_then(Value::as_str).map_or(call.name, str::to_owned);
    ToolUse { action, params }
}

fn result_of(end: &RunEnd) -> PromptResult {
    PromptResult {
        success: end.reason == EndReason::Done,
        messages: messages_of(&end.messages, MAX_MESSAGES),
        iterations: end.done.turns,
        error: end.reason.explanation(),
        thread_id: end.done.thread.to_string(),
    }
}

/// The newest messages with at most `most` bytes, oldest first.
fn messages_of(messages: &[Message], most: usize) -> Vec<Value> {
    let mut left = most;
    let mut newest: Vec<Value> = messages
        .iter()
        .rev()
        .map(|message| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            let content: Vec<Value> = message.content.iter().filter_map(part_of).collect();
            json!({"role": role, "content": content})
        })
        .map_while(|message| {
            left = left.checked_sub(message.to_string().len())?;
            Some(message)
        })
        .collect();
    newest.reverse();
    newest
}

/// A part in the form of Anthropic's Messages API; `None` for pictures and thinking.
fn part_of(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => Some(json!({"type": "text", "text": text})),
        Content::ToolCall(ToolCall { id, name, input }) => {
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
        }
        Content::ToolResult(result) => Some(json!({"type": "tool_result", "tool_use_id": result.call,
            "content": result.text, "is_error": result.is_error})),
        Content::Image(_) | Content::Thinking { .. } | Content::RedactedThinking { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), input }
    }

    #[test]
    fn calls_have_the_form_of_the_client() {
        for (call, action, params) in [
            (
                call("computer", json!({"action": "left_click", "coordinate": [1, 2]})),
                "left_click",
                json!({"coordinate": [1, 2]}),
            ),
            (call("computer", json!("bad")), "computer", json!("bad")),
            (
                call("bash", json!({"command": "ls", "action": "x"})),
                "bash",
                json!({"command": "ls", "action": "x"}),
            ),
        ] {
            assert_eq!(tool_use(call), ToolUse { action: action.to_owned(), params });
        }
    }

    #[test]
    fn the_newest_messages_are_in_the_result() {
        let text = |text: &str| Content::Text { text: text.to_owned() };
        let messages = vec![
            Message { role: Role::User, content: vec![text("a")] },
            Message { role: Role::Assistant, content: vec![Content::ToolCall(call("bash", json!({})))] },
        ];
        let all = messages_of(&messages, 1000);
        assert_eq!(all[0], json!({"role": "user", "content": [{"type": "text", "text": "a"}]}));
        assert_eq!(all[1]["content"][0]["type"], "tool_use");
        assert_eq!(messages_of(&messages, all[1].to_string().len()), all[1..]);
    }

    #[test]
    fn only_json_texts_of_a_bounded_length_are_read() {
        let text = |text: &str| read(&PeerMessage::Text(text.into()));
        let start = r#"{"type": "start", "config": {"computer_id": "c", "instruction": "i", "new": 1}}"#;
        assert!(matches!(text(start), Ok(PromptRequest::Start { .. })));
        assert!(matches!(text(r#"{"type": "ping"}"#), Ok(PromptRequest::Ping)));
        assert!(text("{}").is_err() && text(&" ".repeat(MAX_REQUEST + 1)).is_err());
        assert!(read(&PeerMessage::Binary(start.as_bytes().into())).is_err());
    }
}
