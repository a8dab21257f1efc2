//! Scripted server with the HTTP of Anthropic's Messages API and of OpenAI's Chat Completions API.
//!
//! Each request gets the next turn of the script, or the one that the script chooses for it, in the form of
//! the API that it used. A request that the vendor would refuse gets the vendor's error and uses no turn.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hotdesk::base::tasks::Tasks;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod anthropic;
mod openai;
mod turn;

pub use turn::Turn;
use turn::{Frames, StreamEnd, TurnKind};

/// Largest request that is read: more than any vendor takes.
const MAX_REQUEST: usize = 64 * 1024 * 1024;

/// A request that the server got.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Path, such as `/v1/messages`.
    pub path: String,
    /// Header fields.
    pub headers: HeaderMap,
    /// The document.
    pub body: Value,
}

/// API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vendor {
    Anthropic,
    OpenAi,
}

/// Refusal of a request that is not as documented: the status, and the sentence of the error.
type Refusal = (u16, String);

/// Chooses the turn of a request.
type TurnChoice = Box<dyn Fn(&RecordedRequest) -> Turn + Send + Sync>;

#[derive(Default)]
struct Script {
    turns: Mutex<VecDeque<Turn>>,
    /// Chooses the turns in place of their order.
    choice: Option<TurnChoice>,
    /// Whether replies wait for [`ScriptedModels::release`].
    is_held: watch::Sender<bool>,
    requests: Mutex<Vec<RecordedRequest>>,
    open_streams: AtomicUsize,
    calls: AtomicUsize,
}

/// Counts a reply as open until it is dropped.
struct OpenStream(Arc<Script>);

impl OpenStream {
    fn new(script: &Arc<Script>) -> Self {
        script.open_streams.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(script))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open_streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The server, which ends when this is dropped.
pub struct ScriptedModels {
    address: SocketAddr,
    script: Arc<Script>,
    task: JoinHandle<Option<()>>,
}

impl ScriptedModels {
    /// Starts a server on a free port of this machine.
    pub async fn start(turns: Vec<Turn>) -> Self {
        Self::serve(Script { turns: Mutex::new(turns.into()), ..Script::default() }).await
    }

    /// Starts a server that chooses the turn of each request by its contents: the order in which requests of
    /// several conversations arrive does not matter.
    pub async fn start_choosing(choose: impl Fn(&RecordedRequest) -> Turn + Send + Sync + 'static) -> Self {
        Self::serve(Script { choice: Some(Box::new(choose)), ..Script::default() }).await
    }

    async fn serve(script: Script) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let script = Arc::new(script);
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::max(MAX_REQUEST))
            .with_state(Arc::clone(&script));
        let serving = async { axum::serve(listener, router).await.expect("a server") };
        let task = Tasks::new().spawn("scripted models", serving);
        Self { address, script, task }
    }

    /// Address of the server: the `base_url` of an Anthropic back end. That of an OpenAI one ends with `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lines of a configuration file: the Claude models on the Anthropic side, and `scripted` on the OpenAI
    /// side, which costs $3 and $15 too. `key_file` has the key of the former.
    pub fn configuration(&self, key_file: &std::path::Path) -> String {
        let url = self.url();
        format!(
            "[models.backends.claude]\nkind = \"anthropic\"\nbase_url = \"{url}\"\nkey_file = {key_file:?}\n\
             [models.backends.gpt]\nkind = \"openai\"\nbase_url = \"{url}/v1\"\n\
             [models.backends.gpt.models.scripted]\ninput = 3.0\noutput = 15.0\n"
        )
    }

    /// Adds a turn at the end of the script.
    pub fn push(&self, turn: Turn) {
        self.script.turns.lock().expect("the script").push_back(turn);
    }

    /// Lets replies wait. They count as open streams.
    pub fn hold(&self) {
        self.script.is_held.send_replace(true);
    }

    /// Lets the replies go on that wait since [`Self::hold`].
    pub fn release(&self) {
        self.script.is_held.send_replace(false);
    }

    /// The requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.script.requests.lock().expect("the list").clone()
    }

    /// Replies, and waits before a reply, that have neither ended nor been given up by the client.
    pub fn open_streams(&self) -> usize {
        self.script.open_streams.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedModels {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let request = RecordedRequest { path: uri.path().to_owned(), headers, body };
    script.requests.lock().expect("the list").push(request.clone());
    let (vendor, checked) = match uri.path() {
        "/v1/messages" => (Vendor::Anthropic, anthropic::check(&request.headers, &request.body)),
        "/v1/chat/completions" => (Vendor::OpenAi, openai::check(&request.headers, &request.body)),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if let Err((status, message)) = checked {
        return refuse(vendor, status, &message, None);
    }
    let next = match &script.choice {
        Some(choose) => Some(choose(&request)),
        None => script.turns.lock().expect("the script").pop_front(),
    };
    let Some(turn) = next else {
        return refuse(vendor, 400, "the script has no more turns", None);
    };
    let open = OpenStream::new(&script);
    let mut holding = script.is_held.subscribe();
    assert!(holding.wait_for(|is_held| !*is_held).await.is_ok(), "the script outlives its requests");
    match turn.kind {
        TurnKind::Refusal { status, retry_after } => {
            // Some servers quote keys.
            let keys = ["x-api-key", "authorization"].map(|name| field(&request.headers, name));
            let message = format!("as the script says to {}", keys.join(""));
            refuse(vendor, status, &message, retry_after.as_deref())
        }
        TurnKind::Silence => std::future::pending().await,
        TurnKind::NoStream => axum::Json(json!({"choices": []})).into_response(),
        TurnKind::Stream => {
            let first_call = script.calls.fetch_add(turn.pieces.len(), Ordering::SeqCst);
            let model = request.body["model"].as_str().unwrap_or_default();
            let frames = match vendor {
                Vendor::Anthropic => anthropic::frames(&turn, model, first_call),
                Vendor::OpenAi => openai::frames(&turn, model, first_call),
            };
            let failure = |kind: &str| match vendor {
                Vendor::Anthropic => anthropic::error_frame(kind),
                Vendor::OpenAi => openai::error_frame(kind),
            };
            let end = turn.end.clone();
            let last = if let StreamEnd::Error { kind, .. } = &end { Some(failure(kind)) } else { None };
            stream_of(frames, end, last, turn.pause, open)
        }
    }
}

/// Returns an answer that sends frames with pauses between them.
fn stream_of(
    frames: Frames,
    end: StreamEnd,
    last: Option<String>,
    pause: Duration,
    open: OpenStream,
) -> Response {
    let state = (frames, last, 0_usize, open);
    let body = stream::unfold(state, move |(mut frames, mut last, sent, open)| {
        let end = end.clone();
        async move {
            // The pause also lets the server send what it has buffered; a cut would discard that.
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else if sent > 0 {
                tokio::time::sleep(pause).await;
            }
            let is_at_end = |after: usize| sent >= after;
            let next: Result<String, io::Error> = match end {
                StreamEnd::Cut { after } if is_at_end(after) => Some(Err(io::Error::other("cut"))),
                StreamEnd::Stall { after } if is_at_end(after) => std::future::pending().await,
                StreamEnd::Error { after, .. } if is_at_end(after) => last.take().map(Ok),
                StreamEnd::Complete
                | StreamEnd::Cut { .. }
                | StreamEnd::Stall { .. }
                | StreamEnd::Error { .. } => frames.next().map(Ok),
            }?;
            Some((next, (frames, last, sent + 1, open)))
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(body)).into_response()
}

fn refuse(vendor: Vendor, status: u16, message: &str, retry_after: Option<&str>) -> Response {
    let body = match vendor {
        Vendor::Anthropic => anthropic::error(status, message),
        Vendor::OpenAi => openai::error(status, message),
    };
    let status = StatusCode::from_u16(status).expect("a status");
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(after) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, after.parse().expect("a value"));
    }
    response
}

/// Fails with the refusal of a request that is not as documented.
fn require(holds: bool, message: impl Into<String>) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err((400, message.into())) }
}

/// Returns a header field as text; empty for none.
fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The elements of a list; none for another value.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Splits a text into pieces as a model would send it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// Splits a text in two halves, of which the first may be empty.
fn halves(text: &str) -> [&str; 2] {
    let middle = text.len() / 2;
    let at = (0..=middle).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let (one, two) = text.split_at(at);
    [one, two]
}
