//! Routes `POST /bash`, `POST /exec` and `POST /wait` (docs/api/actions.md).

use std::io;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json as Answer, Router};
use serde::Serialize;

use crate::actions;
use crate::exec::{bash, python};
use crate::state::Agent;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json;
use hotdesk_wire::desktop::action::Wait;
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::desktop::effect::ActionResult;
use hotdesk_wire::programs::exec::Exec;

pub fn router() -> Router<Agent> {
    Router::new().route("/bash", post(run_bash)).route("/exec", post(run_python)).route("/wait", post(wait))
}

async fn run_bash(State(agent): State<Agent>, Json(request): Json<Bash>) -> Result<Response> {
    sized_json(&bash::run(&agent.commands, request).await?)
}

async fn run_python(State(agent): State<Agent>, Json(request): Json<Exec>) -> Result<Response> {
    sized_json(&python::run(&agent.commands, &agent.sessions, request).await?)
}

/// Serializes an answer that may be long into a buffer of exactly its size: a growing buffer would be copied,
/// and two copies of the longest answer take 18 MB.
fn sized_json(answer: &impl Serialize) -> Result<Response> {
    let mut size = ByteCount(0);
    serde_json::to_writer(&mut size, answer).map_err(Error::internal)?;
    let mut body = Vec::with_capacity(size.0);
    serde_json::to_writer(&mut body, answer).map_err(Error::internal)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Writer that counts bytes.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn wait(State(agent): State<Agent>, Json(request): Json<Wait>) -> Result<Answer<ActionResult>> {
    Ok(Answer(actions::wait::wait(&agent.tasks, &request).await?))
}
