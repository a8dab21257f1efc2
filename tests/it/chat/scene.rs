//! A simulated controller with a scripted model, and a computer whose agent records what it gets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hotdesk::base::wait;
use hotdesk::controller::config::{BackendApi, BackendModel, BackendSettings, Config, ModelSettings};
use hotdesk::http::headers::actor;
use hotdesk::model::RequestLimits;
use reqwest::Method;
use serde_json::{Value, json};

use super::fake_control::FakeControl;
use crate::harness::caller::HttpAnswer;
use crate::harness::models::{ScriptedModels, Turn};
use crate::harness::picture::PNG_HEADER;
use crate::harness::simulation::Simulation;

/// Name of the scripted model.
pub const MODEL: &str = "scripted";
/// Longest wait for something that happens at once on an idle machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// What the agent's pictures contain.
const PICTURE: &[u8] = PNG_HEADER;

/// Requests to the agents, and their next answers.
#[derive(Clone)]
pub struct AgentLog(Arc<AgentState>);

#[derive(Default)]
struct AgentState {
    batches: Mutex<Vec<Value>>,
    commands: Mutex<Vec<Value>>,
    /// Who sent the lists of actions.
    actors: Mutex<Vec<String>>,
    control: FakeControl,
    /// Codes of the errors that the next batches fail with.
    failures: Mutex<VecDeque<&'static str>>,
    /// What each command prints.
    output: String,
}

/// A controller with a scripted model and a computer.
pub struct Scene {
    pub controller: Simulation,
    pub models: ScriptedModels,
    pub agent: AgentLog,
    pub home: String,
    pub computer: String,
}

impl AgentLog {
    /// An agent whose commands print this.
    pub fn printing(output: impl Into<String>) -> Self {
        Self(Arc::new(AgentState { output: output.into(), ..AgentState::default() }))
    }

    /// Bodies of `POST /actions` so far.
    pub fn batches(&self) -> Vec<Value> {
        self.0.batches.lock().expect("the list").clone()
    }

    /// Bodies of `POST /bash` so far.
    pub fn commands(&self) -> Vec<Value> {
        self.0.commands.lock().expect("the list").clone()
    }

    /// Who sent the lists of actions so far, as the controller said.
    pub fn actors(&self) -> Vec<String> {
        self.0.actors.lock().expect("the list").clone()
    }

    /// Control of the boot screen.
    pub fn control(&self) -> &FakeControl {
        &self.0.control
    }

    /// Lets the next list of actions fail with this code.
    pub fn fail_next(&self, code: &'static str) {
        self.0.failures.lock().expect("the list").push_back(code);
    }

    /// The agent's routes besides those of [`default_agent`](crate::harness::simulation::default_agent).
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/screenshot", get(screenshot))
            .route("/actions", post(actions))
            .route("/bash", post(bash))
            .with_state(self.clone())
            .merge(self.control().routes())
    }
}

async fn screenshot(request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let screen = query.split('&').find_map(|pair| pair.strip_prefix("screen=")).unwrap_or("default");
    let headers = [
        ("connection", "close"),
        ("x-hotdesk-frame", "frame-0"),
        ("x-hotdesk-scale", "1"),
        ("x-hotdesk-screen", screen),
        ("x-hotdesk-width", "1280"),
        ("x-hotdesk-height", "720"),
    ];
    (headers, Bytes::from_static(PICTURE)).into_response()
}

async fn actions(State(log): State<AgentLog>, headers: HeaderMap, Json(batch): Json<Value>) -> Response {
    let by = actor::read(&headers).map(|actor| actor.to_string()).unwrap_or_default();
    log.0.actors.lock().expect("the list").push(by);
    let number = {
        let mut batches = log.0.batches.lock().expect("the list");
        batches.push(batch.clone());
        batches.len()
    };
    let held = log.control().refuses(&headers).then_some("control_held");
    let failure = held.or_else(|| log.0.failures.lock().expect("the list").pop_front());
    let actions = batch["actions"].as_array().cloned().unwrap_or_default();
    let last = actions.last().cloned().unwrap_or_default();
    let body = if let Some(code) = failure {
        let error = json!({"status": 409, "error": "as the test says", "code": code});
        json!({"success": false, "results": [{"error": error}], "not_tried": actions.len() - 1, "took_ms": 1})
    } else {
        let sees = !last["settle"]["screenshot"].is_null()
            || ["screenshot", "zoom"].iter().any(|action| last["action"] == *action);
        let shot = json!({"success": true, "image": STANDARD.encode(PICTURE), "mime_type": "image/png", "width": 1280,
            "height": 720, "frame": format!("frame-{number}"), "scale": 1.0, "screen": "default"});
        let results: Vec<Value> = (0..actions.len())
            .map(|at| {
                let effect = json!({"window_before": null, "window_after": null, "changed": [], "observed_ms": 1.0,
                    "no_visible_change": false});
                let mut result = json!({"success": true, "action": actions[at]["action"], "effect": effect});
                if sees && at + 1 == actions.len() {
                    result["screenshot"] = shot.clone();
                }
                json!({"result": result})
            })
            .collect();
        json!({"success": true, "results": results, "not_tried": 0, "took_ms": 1})
    };
    ([("connection", "close")], Json(body)).into_response()
}

async fn bash(State(log): State<AgentLog>, Json(command): Json<Value>) -> Response {
    log.0.commands.lock().expect("the list").push(command.clone());
    let body = json!({"success": true, "action": "bash", "command": command["command"],
        "output": log.0.output, "exit_code": 0});
    ([("connection", "close")], Json(body)).into_response()
}

/// Settings of a scripted model at this address. A million tokens cost a dollar, so a turn of 110 tokens
/// costs 0.011 cents.
pub fn settings(url: &str) -> ModelSettings {
    let model = BackendModel { input: 1.0, output: 1.0, ..BackendModel::default() };
    let backend = BackendSettings {
        kind: BackendApi::Openai,
        base_url: format!("{url}/v1"),
        key_file: std::path::PathBuf::new(),
        key_required: None,
        client_keys: None,
        models: [(MODEL.to_owned(), model)].into(),
    };
    let claude = BackendSettings {
        kind: BackendApi::Anthropic,
        base_url: url.to_owned(),
        key_file: std::path::PathBuf::new(),
        key_required: Some(true),
        client_keys: Some(true),
        models: std::collections::BTreeMap::new(),
    };
    let limits = RequestLimits {
        attempts: 2,
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        longest_retry_after: Duration::from_millis(10),
        ..RequestLimits::default()
    };
    let backends = [("local".to_owned(), backend), ("claude".to_owned(), claude)].into();
    ModelSettings { default: MODEL.to_owned(), backends, limits }
}

/// Lines of a configuration file with the scripted model of [`settings`], which is the default.
pub fn configuration(models: &ScriptedModels) -> String {
    let settings = settings(&models.url());
    let local = &settings.backends["local"];
    format!(
        "[models]\ndefault = {:?}\n[models.backends.local]\nkind = \"openai\"\nbase_url = {:?}\n\
         [models.backends.local.models.{}]\ninput = 1.0\noutput = 1.0\n",
        settings.default, local.base_url, settings.default
    )
}

/// Turns of the programs that use the client libraries: `tests/python/hotdesk_chat.py` and
/// `tests/typescript/client_chat.ts`.
pub fn library_turns() -> Vec<Turn> {
    let made = json!({"command": "echo by a model > /root/made.txt"});
    vec![
        Turn::text("One moment. ").then_call("bash", &made),
        Turn::text("Done."),
        Turn::text("Again."),
        Turn::text("Further."),
        // Two runs that are stopped, perhaps before the model is asked.
        Turn::silent(),
        Turn::silent(),
    ]
}

/// Turns of one sample of the client libraries in `docs/clients`: a call and two answers.
pub fn sample_turns() -> Vec<Turn> {
    vec![
        Turn::text("I write it. ").then_call("bash", &json!({"command": "echo Hello. > /root/hello.txt"})),
        Turn::text("It is written."),
        Turn::text("It says: Hello."),
    ]
}

/// A call of the tool `computer`.
pub fn computer(input: Value) -> Turn {
    Turn::call("computer", &input)
}

/// A click.
pub fn click() -> Turn {
    computer(json!({"action": "left_click", "coordinate": [10, 20]}))
}

/// A command.
pub fn command(line: &str) -> Turn {
    Turn::call("bash", &json!({ "command": line }))
}

impl Scene {
    /// A scene whose model has this script.
    pub async fn new(turns: Vec<Turn>) -> Self {
        let models = ScriptedModels::start(turns).await;
        let agent = AgentLog::printing("hi\n");
        let config = Config { models: settings(&models.url()), ..Config::default() };
        let routes = agent.routes();
        let controller = Simulation::boot_with_routes(config, routes).await;
        let home = controller.workspace("home").await;
        let computer = controller.computer(&home, "desk").await;
        Self { controller, models, agent, home, computer }
    }

    /// A request with one message and these further fields.
    pub fn body(&self, text: &str, fields: Value) -> Value {
        let mut body = json!({"computer_id": self.computer, "messages": [{"role": "user", "content": text}]});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        body
    }

    /// Sends a chat completion.
    pub async fn ask(&self, text: &str, fields: Value) -> HttpAnswer {
        self.controller.post("/v1/chat/completions", self.body(text, fields)).await
    }

    /// Starts a streamed chat completion and returns the response with its thread.
    pub async fn stream(&self, text: &str, fields: Value) -> (reqwest::Response, String) {
        let mut body = self.body(text, fields);
        body["stream"] = json!(true);
        let request = self.controller.request(Method::POST, "/v1/chat/completions").json(&body);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let thread = response.headers()["x-thread-id"].to_str().expect("text").to_owned();
        (response, thread)
    }

    /// The record of a thread.
    pub async fn thread(&self, id: &str) -> Value {
        let got = self.controller.get(&format!("/chat/threads/{id}")).await;
        assert_eq!(got.status, 200, "{}", got.body);
        got.body
    }

    /// The steps of a thread.
    pub async fn steps(&self, id: &str) -> Vec<Value> {
        let got = self.controller.get(&format!("/chat/threads/{id}/steps")).await;
        assert_eq!(got.status, 200, "{}", got.body);
        got.body["steps"].as_array().expect("steps").clone()
    }

    /// Waits until the run of a thread has this state.
    pub async fn until_run(&self, thread: &str, state: &str) -> Value {
        let found = wait::until(TIMEOUT, || async {
            let thread = self.thread(thread).await;
            (thread["run"] == state).then_some(thread)
        });
        match found.await {
            Some(thread) => thread,
            None => panic!("the run is not {state}: {}", self.thread(thread).await),
        }
    }

    /// Waits until the model has so many requests.
    pub async fn until_asked(&self, count: usize) {
        until_counted("requests to the model", || self.models.requests().len(), count).await;
    }

    /// The messages of the last request to the model.
    pub fn last_messages(&self) -> Vec<Value> {
        let requests = self.models.requests();
        let last = requests.last().expect("a request");
        last.body["messages"].as_array().expect("messages").clone()
    }
}

/// Waits until a count is so high. Many runs at once take long on a busy machine, so the time begins again with
/// each change.
pub async fn until_counted(what: &str, count: impl Fn() -> usize, wanted: usize) {
    let mut seen = count();
    while seen < wanted {
        let before = seen;
        let changed = wait::until(TIMEOUT, || async { Some(count()).filter(|now| *now != before) }).await;
        seen = changed.unwrap_or_else(|| panic!("{before} {what} and not {wanted}"));
    }
}

/// The documents of a stream of server-sent events; the last one is the text `[DONE]`, if it came.
pub async fn events(response: reqwest::Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.expect("a stream that ends");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

/// Number of pictures in messages of the OpenAI API.
pub fn pictures(messages: &[Value]) -> usize {
    let parts = messages.iter().flat_map(|message| message["content"].as_array().into_iter().flatten());
    parts.filter(|part| part["type"] == "image_url").count()
}
