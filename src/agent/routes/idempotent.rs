//! At-most-once execution of requests that have an `Idempotency-Key`.
//!
//! The journal records such a request before and after its execution. The request runs to its end even when
//! its client disconnects.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::state::journal::{BeginOutcome, Journal, PendingEntry, RecordedAnswer};
use hotdesk_base::tasks::{self, Tasks};
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::{self, CarriedError, Result};
use hotdesk_http::extract::{MAX_JSON_BYTES, read_body};
use hotdesk_http::idempotency::{self, REPLAYED, REQUEST_DIGEST};
use hotdesk_wire::error::ErrorBody;

/// State of the middleware.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    /// Record of keyed requests.
    pub journal: Journal,
    /// Group in which keyed requests run.
    pub tasks: Tasks,
}

/// Middleware: passes requests without a key through and executes a POST with a key at most once.
///
/// # Errors
/// Those of [`Journal::begin`]; `Conflict` (`answer_not_kept`) when the recorded answer was too long to be
/// stored.
pub async fn pass(State(layer): State<IdempotencyLayer>, request: Request, next: Next) -> Result<Response> {
    let Some(key) = idempotency::read_key(request.headers())?.filter(|_| request.method() == Method::POST)
    else {
        return Ok(next.run(request).await);
    };
    let (parts, body) = request.into_parts();
    let body = read_body(body, MAX_JSON_BYTES).await?;
    let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let digest = parts.headers.get(REQUEST_DIGEST).map(|digest| Bytes::copy_from_slice(digest.as_bytes()));
    let (journal, sent) = (layer.journal.clone(), digest.unwrap_or_else(|| body.clone()));
    let begun = blocking(move || journal.begin(key.as_bytes(), &[path.as_bytes(), query.as_bytes(), &sent]))
        .await??;
    let entry = match begun {
        BeginOutcome::Done(answer) => return replay(answer),
        BeginOutcome::New(entry) => entry,
    };
    let request = Request::from_parts(parts, Body::from(body));
    let execution = layer.tasks.spawn("idempotent request", async move {
        let (response, answer) = split_answer(next.run(request).await).await?;
        finish_entry(entry, answer).await?;
        Ok(response)
    });
    let done =
        execution.await.map_err(|error| Error::internal(format!("the request's task failed: {error}")))?;
    Ok(done.unwrap_or_else(|| Err(Error::internal("the request's task panicked")))?)
}

/// Returns the response and the part of it to record; `None` when the request had no effect.
async fn split_answer(response: Response) -> Result<(Response, Option<RecordedAnswer>)> {
    let status = response.status().as_u16();
    if let Some(CarriedError(error)) = response.extensions().get::<CarriedError>() {
        // Input that somebody else's control refused was not begun: a retry after the hand-back executes.
        let nothing_done = error.code == Some(ErrorCode::ControlHeld)
            || (error.kind == Kind::Unavailable && error.code != Some(ErrorCode::OutcomeUnknown));
        // Without a request id, because each replay has its own.
        let body = ErrorBody { request_id: None, ..error_response::body(error, "") };
        let body = serde_json::to_string(&body).map_err(Error::internal)?;
        let answer = (!nothing_done).then_some(RecordedAnswer { status, body: Some(body) });
        return Ok((response, answer));
    }
    let (parts, body) = response.into_parts();
    let whole: Bytes = body.collect().await.map_err(Error::internal)?.to_bytes();
    let text = String::from_utf8(whole.to_vec()).ok();
    Ok((Response::from_parts(parts, Body::from(whole)), Some(RecordedAnswer { status, body: text })))
}

async fn finish_entry(entry: PendingEntry, answer: Option<RecordedAnswer>) -> Result<()> {
    let written = blocking(move || match answer {
        Some(answer) => entry.record(answer),
        None => entry.cancel(),
    });
    // The client still gets its answer; a retry gets `outcome_unknown`.
    if let Err(error) = written.await? {
        tracing::error!(%error, "cannot write an answer to the request journal; a retry gets outcome_unknown");
    }
    Ok(())
}

fn replay(answer: RecordedAnswer) -> Result<Response> {
    let Some(body) = answer.body else {
        return Err(Error::conflict(format!(
            "The request was executed with status {}; its answer was too long to be stored",
            answer.status
        ))
        .code(ErrorCode::AnswerNotKept)
        .into());
    };
    let status = StatusCode::from_u16(answer.status).map_err(Error::internal)?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (REPLAYED, HeaderValue::from_static("true")),
    ];
    Ok((status, headers, body).into_response())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tasks::spawn_blocking(work).await;
    Ok(done.map_err(|error| Error::internal(format!("the request journal's task failed: {error}")))?)
}
