//! `POST /bash`, `POST /exec`, `POST /wait` (wire.md 6).

use axum::extract::State;
use axum::routing::post;
use axum::{Json as Answer, Router};

use crate::agent::acting;
use crate::agent::exec::{bash, python};
use crate::agent::state::Agent;
use crate::domain::error::Result;
use crate::http::extract::Json;
use crate::wire::action::{Bash, BashResult, Exec, ExecResult, Wait};
use crate::wire::effect::ActionResult;

pub fn router() -> Router<Agent> {
    Router::new().route("/bash", post(run_bash)).route("/exec", post(run_python)).route("/wait", post(wait))
}

async fn run_bash(State(agent): State<Agent>, Json(request): Json<Bash>) -> Result<Answer<BashResult>> {
    bash::run(&agent.commands, request).await.map(Answer)
}

async fn run_python(State(agent): State<Agent>, Json(request): Json<Exec>) -> Result<Answer<ExecResult>> {
    python::run(&agent.commands, request).await.map(Answer)
}

async fn wait(State(agent): State<Agent>, Json(request): Json<Wait>) -> Result<Answer<ActionResult>> {
    acting::wait::wait(&agent.tasks, &request).await.map(Answer)
}
