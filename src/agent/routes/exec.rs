//! `POST /bash`, `POST /exec`, `POST /wait` (wire.md 6).

use std::io;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json as Answer, Router};
use serde::Serialize;

use crate::agent::exec::{bash, python};
use crate::agent::state::Agent;
use crate::domain::error::{Error, Result};
use crate::http::extract::Json;
use crate::wire::action::{ActionResult, Wait};
use crate::wire::exec::{Bash, Exec};

/// The most seconds that a wait may take.
const MAX_WAIT_SECONDS: f64 = 60.0;

pub fn router() -> Router<Agent> {
    Router::new().route("/bash", post(run_bash)).route("/exec", post(run_python)).route("/wait", post(wait))
}

async fn run_bash(State(agent): State<Agent>, Json(request): Json<Bash>) -> Result<Response> {
    long(&bash::run(&agent.commands, request).await?)
}

async fn run_python(State(agent): State<Agent>, Json(request): Json<Exec>) -> Result<Response> {
    long(&python::run(&agent.commands, &agent.sessions, request).await?)
}

/// An answer that may be long, written into a buffer of exactly its size: one that grows is copied, and of the
/// longest answer two copies would be 18 MB.
fn long(answer: &impl Serialize) -> Result<Response> {
    let mut size = Size(0);
    serde_json::to_writer(&mut size, answer).map_err(Error::internal)?;
    let mut body = Vec::with_capacity(size.0);
    serde_json::to_writer(&mut body, answer).map_err(Error::internal)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Counts what is written to it.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn wait(State(agent): State<Agent>, Json(request): Json<Wait>) -> Result<Answer<ActionResult>> {
    let (seconds, duration) = length(&request)?;
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = agent.tasks.stopping().cancelled_owned() => {
            return Err(Error::unavailable("the agent is stopping"));
        }
    }
    let details = Some(serde_json::json!({ "seconds": seconds }));
    Ok(Answer(ActionResult { success: true, action: "wait".to_owned(), details }))
}

/// How long a request wants to wait; `seconds` wins over the older name.
fn length(request: &Wait) -> Result<(f64, Duration)> {
    let refused = |text: &str| Error::invalid(text).code("INVALID_REQUEST");
    let Some(seconds) = request.seconds.or(request.duration) else {
        return Err(refused("seconds is required"));
    };
    if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
        return Err(refused("seconds must be 0 to 60"));
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| refused("seconds must be a number"))?;
    Ok((seconds, duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_last_0_to_60_seconds_by_either_name() {
        let length = |seconds, duration| length(&Wait { seconds, duration }).map(|(seconds, _)| seconds);
        for (seconds, duration, wanted) in [
            (Some(0.0), None, 0.0),
            (Some(60.0), None, 60.0),
            (None, Some(2.5), 2.5),
            (Some(1.0), Some(59.0), 1.0),
        ] {
            assert_eq!(length(seconds, duration).unwrap(), wanted);
        }
        for (seconds, duration) in [
            (None, None),
            (Some(-0.1), None),
            (Some(60.1), None),
            (Some(f64::NAN), None),
            (Some(f64::INFINITY), Some(1.0)),
            (None, Some(61.0)),
        ] {
            assert!(length(seconds, duration).is_err(), "{seconds:?} {duration:?}");
        }
    }
}
