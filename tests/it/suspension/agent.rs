//! Agent with a memory: it counts its calls and accepts only its own token.

use std::sync::{Arc, Mutex};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hotdesk::engine::simulated::{AgentBoot, AgentFactory, SimulatedMemory};
use hotdesk::wire::agent::Renewal;
use serde_json::{Value, json};

/// Behaviour of an agent at the renewal of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalBehaviour {
    /// Accepts the new token and reports success.
    Honest,
    /// Fails and stays with its old token.
    Fails,
    /// Reports success and stays with its old token.
    Lies,
    /// Reports that the token was not renewed.
    Keeps,
    /// Accepts the new token, and its response is an error.
    LosesResponse,
}

/// The behaviour of the agents, and the renewals that they got.
#[derive(Clone)]
pub struct Agents {
    pub behaviour: Arc<Mutex<RenewalBehaviour>>,
    pub renewals: Arc<Mutex<Vec<Renewal>>>,
    /// The paths of all requests.
    pub paths: Arc<Mutex<Vec<String>>>,
}

struct Memory {
    state: SimulatedMemory,
    agents: Agents,
}

impl Agents {
    pub fn new() -> Self {
        Self {
            behaviour: Arc::new(Mutex::new(RenewalBehaviour::Honest)),
            renewals: Arc::default(),
            paths: Arc::default(),
        }
    }

    pub fn behave(&self, behaviour: RenewalBehaviour) {
        *self.behaviour.lock().expect("no panic") = behaviour;
    }

    pub fn factory(&self) -> AgentFactory {
        let agents = self.clone();
        Arc::new(move |agent_boot: &AgentBoot| {
            let state = agent_boot.memory.clone();
            if state.get("token").is_none() {
                state.set("token", agent_boot.boot.token.reveal());
            }
            let memory = Memory { state, agents: agents.clone() };
            Router::new().fallback(answer).with_state(Arc::new(memory))
        })
    }
}

fn response(status: StatusCode, body: Value) -> Response {
    (status, [(header::CONNECTION, "close")], Json(body)).into_response()
}

async fn answer(State(memory): State<Arc<Memory>>, request: Request) -> Response {
    memory.agents.paths.lock().expect("no panic").push(request.uri().path().to_owned());
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let expected = format!("Bearer {}", memory.state.get("token").expect("one"));
    if authorization != Some(&expected) {
        return response(StatusCode::UNAUTHORIZED, json!({"error": "Invalid token"}));
    }
    let body = match request.uri().path() {
        "/health" => json!({"status": "ok", "version": "1", "uptime_ms": 1, "screens": 1, "cpu_count": 1,
            "memory_total_bytes": 1, "memory_used_bytes": 1}),
        "/bash" => {
            let count = memory.state.count("asked");
            json!({"success": true, "action": "bash", "command": "", "output": count.to_string(), "exit_code": 0})
        }
        "/screens" => json!({ "screens": [] }),
        "/identity" => return renew(&memory, request).await,
        _ => json!({"success": true, "action": "wait"}),
    };
    response(StatusCode::OK, body)
}

async fn renew(memory: &Memory, request: Request) -> Response {
    let bytes = to_bytes(request.into_body(), 65_536).await.expect("a body");
    let renewal: Renewal = serde_json::from_slice(&bytes).expect("a renewal");
    let behaviour = *memory.agents.behaviour.lock().expect("no panic");
    if matches!(behaviour, RenewalBehaviour::Honest | RenewalBehaviour::LosesResponse) {
        memory.state.set("token", &*renewal.agent_token);
    }
    memory.agents.renewals.lock().expect("no panic").push(renewal);
    let parts = |renewed: Value| json!({"renewed": renewed, "failed": ["clock: no"], "clock_was_off_ms": 5});
    match behaviour {
        RenewalBehaviour::Honest | RenewalBehaviour::Lies => {
            response(StatusCode::OK, parts(json!(["token"])))
        }
        RenewalBehaviour::Keeps => response(StatusCode::OK, parts(json!(["clock"]))),
        RenewalBehaviour::Fails | RenewalBehaviour::LosesResponse => {
            response(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": "no"}))
        }
    }
}
