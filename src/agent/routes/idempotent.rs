//! How is a request carried out at most once? With an `Idempotency-Key` it is noted before and after in the journal, and
//! carried out to its end whether or not its client still waits.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::journal::{Answer, Begun, Entry, Journal};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response::CarriedError;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{MAX_JSON_BYTES, read_body};
use hotdesk_http::idempotency::{self, REPLAYED};

/// Where the layer notes things, and what carries requests out.
#[derive(Clone, Debug)]
pub struct Noting {
    /// The journal.
    pub journal: Journal,
    /// Carries requests out.
    pub tasks: Tasks,
}

/// Lets a request without a key pass; one with a key is carried out at most once.
pub async fn pass(State(noting): State<Noting>, request: Request, next: Next) -> Result<Response> {
    let Some(key) = idempotency::shown(request.headers())?.filter(|_| request.method() == Method::POST)
    else {
        return Ok(next.run(request).await);
    };
    let (parts, body) = request.into_parts();
    let body = read_body(body, MAX_JSON_BYTES).await?;
    let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let (journal, sent) = (noting.journal.clone(), body.clone());
    let begun = blocking(move || journal.begin(key.as_bytes(), &[path.as_bytes(), query.as_bytes(), &sent]))
        .await??;
    let entry = match begun {
        Begun::Done(answer) => return replay(answer),
        Begun::New(entry) => entry,
    };
    let request = Request::from_parts(parts, Body::from(body));
    let carried_out = noting.tasks.spawn("idempotent request", async move {
        let (response, answer) = kept(next.run(request).await).await?;
        note(entry, answer).await?;
        Ok(response)
    });
    let done =
        carried_out.await.map_err(|error| Error::internal(format!("the request broke down: {error}")))?;
    Ok(done.unwrap_or_else(|| Err(Error::internal("the request's task panicked")))?)
}

/// Splits an answer into itself and what is kept of it; `None` when nothing was done.
async fn kept(response: Response) -> Result<(Response, Option<Answer>)> {
    let status = response.status().as_u16();
    if let Some(CarriedError(error)) = response.extensions().get::<CarriedError>() {
        let nothing_done = error.kind == Kind::Unavailable && error.code != Some("outcome_unknown");
        let body = serde_json::json!({"error": error.message, "code": error.code}).to_string();
        let answer = (!nothing_done).then_some(Answer { status, body: Some(body) });
        return Ok((response, answer));
    }
    let (parts, body) = response.into_parts();
    let whole: Bytes = body.collect().await.map_err(Error::internal)?.to_bytes();
    let text = String::from_utf8(whole.to_vec()).ok();
    Ok((Response::from_parts(parts, Body::from(whole)), Some(Answer { status, body: text })))
}

async fn note(entry: Entry, answer: Option<Answer>) -> Result<()> {
    let noted = blocking(move || match answer {
        Some(answer) => entry.answered(answer),
        None => entry.undone(),
    });
    // The client hears what was done; only a retry will not know it.
    if let Err(error) = noted.await? {
        tracing::error!(%error, "could not keep an answer in the journal");
    }
    Ok(())
}

fn replay(answer: Answer) -> Result<Response> {
    let Some(body) = answer.body else {
        return Err(Error::conflict(format!(
            "It was done with status {}; the answer was too long to be kept",
            answer.status
        ))
        .code("answer_not_kept")
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
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Error::internal(format!("the journal broke down: {error}")))?)
}
