//! An agent with a memory: it counts what it is asked, and takes no token but its own.

use std::sync::{Arc, Mutex};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hotdesk::engine::simulated::{AgentFactory, Birth, Remembered};
use hotdesk::wire::agent::Renewal;
use serde_json::{Value, json};

/// What an agent does when it is given a new identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It takes it and says so.
    Honest,
    /// It fails and keeps its token.
    Fails,
    /// It says that all went well and keeps its token.
    Lies,
    /// It says that it keeps its token, and does.
    Keeps,
    /// It takes it, and its answer is a failure.
    LosesItsAnswer,
}

/// How agents behave from now on, and what they were told.
#[derive(Clone)]
pub struct Agents {
    pub manner: Arc<Mutex<Manner>>,
    pub renewals: Arc<Mutex<Vec<Renewal>>>,
}

struct Memory {
    kept: Remembered,
    agents: Agents,
}

impl Agents {
    pub fn new() -> Self {
        Self { manner: Arc::new(Mutex::new(Manner::Honest)), renewals: Arc::default() }
    }

    pub fn behave(&self, manner: Manner) {
        *self.manner.lock().expect("no panic") = manner;
    }

    pub fn factory(&self) -> AgentFactory {
        let agents = self.clone();
        Arc::new(move |birth: &Birth| {
            let kept = birth.memory.clone();
            if kept.get("token").is_none() {
                kept.set("token", birth.boot.token.reveal());
            }
            let memory = Memory { kept, agents: agents.clone() };
            Router::new().fallback(answer).with_state(Arc::new(memory))
        })
    }
}

fn told(status: StatusCode, body: Value) -> Response {
    (status, [(header::CONNECTION, "close")], Json(body)).into_response()
}

async fn answer(State(memory): State<Arc<Memory>>, request: Request) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let expected = format!("Bearer {}", memory.kept.get("token").expect("one"));
    if shown != Some(&expected) {
        return told(StatusCode::UNAUTHORIZED, json!({"error": "Invalid token"}));
    }
    let body = match request.uri().path() {
        "/health" => json!({"status": "ok", "version": "1", "uptime_ms": 1, "screens": 1, "cpu_count": 1,
            "memory_total_bytes": 1, "memory_used_bytes": 1}),
        "/bash" => {
            let count = memory.kept.count("asked");
            json!({"success": true, "action": "bash", "command": "", "output": count.to_string(), "exit_code": 0})
        }
        "/screens" => json!({ "screens": [] }),
        "/identity" => return renew(&memory, request).await,
        _ => json!({"success": true, "action": "wait"}),
    };
    told(StatusCode::OK, body)
}

async fn renew(memory: &Memory, request: Request) -> Response {
    let bytes = to_bytes(request.into_body(), 65_536).await.expect("a body");
    let renewal: Renewal = serde_json::from_slice(&bytes).expect("a renewal");
    let manner = *memory.agents.manner.lock().expect("no panic");
    if matches!(manner, Manner::Honest | Manner::LosesItsAnswer) {
        memory.kept.set("token", &*renewal.agent_token);
    }
    memory.agents.renewals.lock().expect("no panic").push(renewal);
    let parts = |renewed: Value| json!({"renewed": renewed, "failed": ["clock: no"], "clock_was_off_ms": 5});
    match manner {
        Manner::Honest | Manner::Lies => told(StatusCode::OK, parts(json!(["token"]))),
        Manner::Keeps => told(StatusCode::OK, parts(json!(["clock"]))),
        Manner::Fails | Manner::LosesItsAnswer => {
            told(StatusCode::INTERNAL_SERVER_ERROR, json!({"error": "no"}))
        }
    }
}
