//! Chat completions in the form of the OpenAI API, plain and streamed, and the list of models
//! (docs/api/chat.md).

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use utoipa::IntoResponses;
use utoipa::openapi::{Content, Ref, RefOr, Response as Documented, ResponseBuilder};
use uuid::Uuid;

use super::chat_errors::{self, THREAD_ID};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::chat::runs::{RunEnd, RunEvent, RunHandle, RunRequest};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{MAX_JSON_BYTES, Path, parse_object, read_body};
use hotdesk_http::serve::KEEP_ALIVE;
use hotdesk_wire::chat::completion::{
    AssistantMessage, ChatChoice, ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, ChatErrorBody,
    ChunkChoice, ChunkDelta, ModelList, ModelRecord,
};

/// Header of a request with its key for Anthropic's API. It is neither stored nor logged.
const MODEL_KEY: HeaderName = HeaderName::from_static("x-anthropic-key");
/// Longest such key, in bytes: real ones have about 110.
const MAX_MODEL_KEY: usize = 512;
/// Longest text of a plain answer, in bytes: 250 turns of a page each.
const MAX_TEXT: usize = 1024 * 1024;
/// Data of the last event of a stream.
const LAST_EVENT: &str = "[DONE]";

/// Returns the routes of chat completions and models.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(complete)).routes(routes!(models)).routes(routes!(model))
}

/// Failures of a chat completion, whose bodies have the form of the OpenAI API.
struct ChatFailures;

impl IntoResponses for ChatFailures {
    fn responses() -> BTreeMap<String, RefOr<Documented>> {
        let failures = [
            ("400", "The request is malformed, a value is out of range, or the model refused it"),
            ("401", "Missing or invalid API key"),
            ("402", "The client has used its monthly cap, the trial has ended, or the payment has lapsed"),
            ("403", "Not allowed: scope or ownership"),
            ("404", "The computer or the thread does not exist"),
            ("408", "The request body did not arrive in time"),
            ("409", "A run works on the screen already, or the computer does not run"),
            ("413", "The request body is too large"),
            ("422", "This Idempotency-Key was used for another request"),
            ("429", "Too many requests, here or at the model; see Retry-After"),
            ("500", "Unexpected failure of the service or the computer"),
            ("503", "The computer or the model is not available"),
            ("504", "The computer did not respond in time"),
        ];
        let body = || Content::new(Some(RefOr::Ref(Ref::from_schema_name("ChatErrorBody"))));
        let documented = |(status, text): (&str, &str)| {
            let response =
                ResponseBuilder::new().description(text).content("application/json", body()).build();
            (status.to_owned(), RefOr::T(response))
        };
        failures.into_iter().map(documented).collect()
    }
}

/// Lets a model work on a computer until it has finished, and returns its text.
///
/// The model sees the screen and uses mouse, keyboard and commands. With `stream`, the text comes as
/// server-sent events while the model works: each `data` is a chunk, the last one is `[DONE]`. A client that
/// disconnects ends the run, unless the request says `background`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "chat",
    params(("x-anthropic-key" = Option<String>, Header, description = "Key for Anthropic's API; it is not stored")),
    request_body = ChatCompletionRequest,
    responses(ChatFailures,
        (status = 200, description = "The model has finished, or the run has reached a bound",
            content((ChatCompletion = "application/json"), (String = "text/event-stream")),
            headers(("X-Thread-Id" = String, description = "The id of the run's thread"))),
        (status = 502, description = "A program in the computer cannot be reached", body = ChatErrorBody)))]
async fn complete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let key = model_key(&parts.headers)?;
    let body = read(body).await?;
    // Before the rest of the body is checked: a request without access gets its 403 or 404 whatever it sends.
    if !body.computer_id.trim().is_empty() {
        app.runs.admit(&caller, body.computer_id.trim()).await?;
    }
    let is_streamed = body.stream.unwrap_or(false);
    let run = app.runs.start(&caller, RunRequest::from_completion(body, key)?).await?;
    let thread = HeaderValue::try_from(run.thread.to_string()).map_err(Error::internal)?;
    let request_id = parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default();
    let mut response =
        if is_streamed { streamed(run, request_id) } else { Json(whole(run).await?).into_response() };
    response.headers_mut().insert(THREAD_ID, thread);
    Ok(response)
}

/// Lists the models that a chat completion can name.
#[utoipa::path(get, path = "/v1/models", tag = "chat",
    responses((status = 200, description = "The models", body = ModelList)))]
async fn models(State(app): State<AppState>, _caller: AuthenticatedCaller) -> Result<Json<ModelList>> {
    let data = app.runs.models().into_iter().map(record).collect();
    Ok(Json(ModelList { object: "list".to_owned(), data }))
}

/// Returns a model.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "chat", params(("model" = String, Path)),
    responses((status = 200, description = "The model", body = ModelRecord)))]
async fn model(
    State(app): State<AppState>,
    _caller: AuthenticatedCaller,
    Path(name): Path<String>,
) -> Result<Json<ModelRecord>> {
    let name = app.runs.model(&name).ok_or_else(|| {
        Error::not_found("There is no such model: GET /v1/models lists them").code(ErrorCode::InvalidModel)
    })?;
    Ok(Json(record(name)))
}

fn record(id: String) -> ModelRecord {
    ModelRecord { id, object: "model".to_owned(), created: 0, owned_by: "hotdesk".to_owned() }
}

/// Reads the body. Its errors have the code of chat completions.
async fn read(body: Body) -> Result<ChatCompletionRequest> {
    let bytes = read_body(body, MAX_JSON_BYTES).await?;
    Ok(parse_object(&bytes).map_err(|error| error.code(ErrorCode::InvalidJson))?)
}

fn model_key(headers: &HeaderMap) -> Result<Option<Secret>> {
    let Some(value) = headers.get(MODEL_KEY) else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|text| text.len() <= MAX_MODEL_KEY);
    let text = text.ok_or_else(|| Error::invalid(format!("{MODEL_KEY} is no key")))?;
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

/// Identity of an answer, the same in each of its events.
#[derive(Clone)]
struct Answer {
    id: String,
    created: i64,
    model: String,
}

impl Answer {
    fn of(run: &RunHandle) -> Self {
        let id = format!("chatcmpl-{}", Uuid::new_v4().simple());
        Self { id, created: clock::now().as_i64() / 1000, model: run.model.clone() }
    }

    fn chunk(&self, delta: ChunkDelta, end: Option<&RunEnd>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk".to_owned(),
            created: self.created,
            model: self.model.clone(),
            choices: vec![ChunkChoice {
                index: 0,
                delta,
                finish_reason: end.map(|end| end.reason.finish_reason().to_owned()),
            }],
            usage: end.map(RunEnd::usage),
            orgo: end.map(RunEnd::summary),
            progress: None,
        }
    }
}

/// Waits for the end of a run.
async fn whole(mut run: RunHandle) -> Result<ChatCompletion> {
    let answer = Answer::of(&run);
    let mut content = String::new();
    while let Some(event) = run.events.recv().await {
        match event {
            RunEvent::Text(text) => push_bounded(&mut content, &text),
            RunEvent::Turn(_) | RunEvent::Thinking(_) | RunEvent::Call(_) | RunEvent::Progress(_) => {}
            RunEvent::Failed(error) => return Err((*error).into()),
            RunEvent::Ended(end) => {
                let Answer { id, created, model } = answer;
                let message = AssistantMessage { role: "assistant".to_owned(), content };
                let finish_reason = end.reason.finish_reason().to_owned();
                return Ok(ChatCompletion {
                    id,
                    object: "chat.completion".to_owned(),
                    created,
                    model,
                    choices: vec![ChatChoice { index: 0, message, finish_reason }],
                    usage: end.usage(),
                    orgo: end.summary(),
                });
            }
        }
    }
    Err(broken().into())
}

/// Adds a text, and removes the beginning above [`MAX_TEXT`]: the end says what came of it.
fn push_bounded(content: &mut String, text: &str) {
    content.push_str(text);
    if content.len() > MAX_TEXT {
        let start = content.ceil_char_boundary(content.len() - MAX_TEXT);
        content.drain(..start);
    }
}

/// State of a stream.
enum StreamState {
    /// Nothing was sent.
    Beginning,
    /// The run goes on.
    Running,
    /// The last chunk was sent.
    Ended,
    /// Everything was sent.
    Complete,
}

/// Returns the events of a run as they come.
fn streamed(run: RunHandle, request_id: String) -> Response {
    let answer = Answer::of(&run);
    let state = (run, StreamState::Beginning);
    let events = stream::unfold(state, move |(mut run, state)| {
        let (answer, request_id) = (answer.clone(), request_id.clone());
        async move {
            let (event, state) = match state {
                StreamState::Beginning => {
                    let role = Some("assistant".to_owned());
                    let first = answer.chunk(ChunkDelta { role, content: None }, None);
                    (Event::default().json_data(first), StreamState::Running)
                }
                StreamState::Running => next_event(&mut run, &answer, &request_id).await,
                StreamState::Ended => (Ok(Event::default().data(LAST_EVENT)), StreamState::Complete),
                StreamState::Complete => return None,
            };
            let event = event.unwrap_or_else(|error| {
                tracing::error!(%error, "could not serialize an event of a chat completion");
                Event::default().comment("error")
            });
            Some((Ok::<_, Infallible>(event), (run, state)))
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

async fn next_event(
    run: &mut RunHandle,
    answer: &Answer,
    request_id: &str,
) -> (std::result::Result<Event, axum::Error>, StreamState) {
    loop {
        match run.events.recv().await {
            Some(RunEvent::Text(text)) => {
                let delta = ChunkDelta { role: None, content: Some(text) };
                return (Event::default().json_data(answer.chunk(delta, None)), StreamState::Running);
            }
            Some(RunEvent::Progress(progress)) => {
                let chunk = answer.chunk(ChunkDelta::default(), None);
                let chunk = ChatCompletionChunk { progress: Some(progress), ..chunk };
                return (Event::default().json_data(chunk), StreamState::Running);
            }
            Some(RunEvent::Turn(_) | RunEvent::Thinking(_) | RunEvent::Call(_)) => {}
            Some(RunEvent::Ended(end)) => {
                let last = answer.chunk(ChunkDelta::default(), Some(&end));
                return (Event::default().json_data(last), StreamState::Ended);
            }
            // Clients of the OpenAI API raise an error for an event with `error`.
            Some(RunEvent::Failed(error)) => {
                return (failure(&error, request_id), StreamState::Complete);
            }
            None => return (failure(&broken(), request_id), StreamState::Complete),
        }
    }
}

fn failure(error: &Error, request_id: &str) -> std::result::Result<Event, axum::Error> {
    hotdesk_http::error_response::log(error, request_id);
    Event::default().json_data(chat_errors::body(error, request_id))
}

/// The error of a run whose task ended without an event.
fn broken() -> Error {
    Error::internal("a run ended without an event")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_loses_its_beginning() {
        let mut content = "é".repeat(MAX_TEXT / 2);
        push_bounded(&mut content, "end");
        assert!(content.len() <= MAX_TEXT && content.ends_with("éend"));
    }

    #[test]
    fn the_key_of_a_model_is_short() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(MODEL_KEY, HeaderValue::from_bytes(text.as_bytes()).unwrap());
            model_key(&headers).map(|key| key.map(|key| key.reveal().to_owned()))
        };
        assert_eq!(read(" sk-ant-1 ").unwrap().as_deref(), Some("sk-ant-1"));
        assert_eq!(read("").unwrap(), None);
        assert!(read(&"x".repeat(MAX_MODEL_KEY + 1)).is_err() && read("é").is_err());
        assert!(model_key(&HeaderMap::new()).unwrap().is_none());
    }
}
