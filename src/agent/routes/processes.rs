//! Routes `/processes` and `/sessions`: background processes and Python sessions.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json as Answer, Router};

use crate::exec::process::ProcessOutput;
use crate::state::Agent;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json, Path, Query};
use hotdesk_http::serve::ClientMayPause;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::programs::exec::SessionList;
use hotdesk_wire::programs::process::{
    LOST_HEADER, OFFSET_HEADER, OutputQuery, Process, ProcessList, SendSignal, SignalResult, StartProcess,
    StdinQuery, StdinWritten,
};

pub fn router() -> Router<Agent> {
    Router::new()
        .route("/processes", get(list).post(start))
        .route("/processes/{id}", get(record).delete(end))
        .route("/processes/{id}/output", get(output))
        .route("/processes/{id}/stdin", post(feed))
        .route("/processes/{id}/signal", post(signal))
        .route("/sessions", get(sessions))
        .route("/sessions/{name}", delete(end_session))
}

async fn list(State(agent): State<Agent>) -> Answer<ProcessList> {
    Answer(ProcessList { processes: agent.processes.list() })
}

async fn start(
    State(agent): State<Agent>,
    Json(request): Json<StartProcess>,
) -> Result<(StatusCode, Answer<Process>)> {
    let process = agent.processes.start(request).await?;
    Ok((StatusCode::CREATED, Answer(process)))
}

async fn record(State(agent): State<Agent>, Path(id): Path<String>) -> Result<Answer<Process>> {
    Ok(Answer(agent.processes.find(&id)?.record()))
}

async fn end(State(agent): State<Agent>, Path(id): Path<String>) -> Result<Answer<Acknowledgement>> {
    agent.processes.delete(&id).await?;
    Ok(Answer(Acknowledgement { success: true }))
}

async fn output(
    State(agent): State<Agent>,
    Path(id): Path<String>,
    Query(query): Query<OutputQuery>,
) -> Result<Response> {
    let ProcessOutput { offset, lost, length, bytes } = agent.processes.find(&id)?.output(&query).await?;
    let mut response = Body::from_stream(bytes).into_response();
    // The client is the controller, which bounds its own clients.
    response.extensions_mut().insert(ClientMayPause::unlimited());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(HeaderName::from_static(OFFSET_HEADER), HeaderValue::from(offset));
    headers.insert(HeaderName::from_static(LOST_HEADER), HeaderValue::from(lost));
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

async fn feed(
    State(agent): State<Agent>,
    Path(id): Path<String>,
    Query(query): Query<StdinQuery>,
    body: Body,
) -> Result<Answer<StdinWritten>> {
    Ok(Answer(agent.processes.find(&id)?.feed(body, query.eof.unwrap_or(false)).await?))
}

async fn signal(
    State(agent): State<Agent>,
    Path(id): Path<String>,
    Json(request): Json<SendSignal>,
) -> Result<Answer<SignalResult>> {
    Ok(Answer(agent.processes.find(&id)?.signal(&request).await?))
}

async fn sessions(State(agent): State<Agent>) -> Answer<SessionList> {
    Answer(SessionList { sessions: agent.sessions.list() })
}

async fn end_session(
    State(agent): State<Agent>,
    Path(name): Path<String>,
) -> Result<Answer<Acknowledgement>> {
    agent.sessions.delete(&name).await?;
    Ok(Answer(Acknowledgement { success: true }))
}
