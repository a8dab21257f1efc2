//! Idempotency layer: requests with an `Idempotency-Key` run at most once.
//!
//! The request is recorded in the database before and after its handler. The handler runs to its end, whether
//! or not the client still waits, D6 (docs/security.md).
//!
//! ```text
//! request task: receive the body ([`body_buffer`]) | own task: record -> handler -> store the response
//! a disconnect has no effect                      | a disconnect cancels nothing
//! ```
//!
//! A controller that is killed between the record and the handler leaves the same row as one that is killed
//! in the handler. They cannot be distinguished, so both are `outcome_unknown`.
//!
//! Actions, commands and the proxy path pass unchanged, because the computer's agent deduplicates them
//! itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};

use crate::web::caller::IdentifiedCaller;
use crate::{AppState, audit};
use hotdesk_base::clock;
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::idempotency::{self, digest};
use hotdesk_store::idempotency::{IdempotentRequest, RETENTION_LIMITS, RequestState, credential_label};

mod answer;
mod body_buffer;
mod fingerprint;
mod rules;

pub use body_buffer::BodyBuffers;

use answer::Outcome;
use rules::FingerprintRule;

/// How long the result of a key is stored (docs/api/conventions.md).
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Seconds after which a client may retry while the first request is in progress, or while the service shuts
/// down.
const RETRY_SECONDS: u32 = 1;

/// Methods of operations that change something.
const CHANGING_METHODS: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Requests in progress by the digest of their key.
pub type RunningRequests = KeyedSemaphore<String>;

/// State of the layer.
#[derive(Clone)]
pub struct IdempotencyLayer {
    app: AppState,
    /// Operations whose responses are stored here.
    operations: Arc<HashMap<(Method, String), FingerprintRule>>,
}

impl IdempotencyLayer {
    /// Creates the layer for those of the documented operations, given by method and path, that change
    /// something and whose responses no agent stores.
    pub fn new(app: AppState, documented: Vec<(Method, String)>) -> Self {
        let stored_here = documented.into_iter().filter(|(method, path)| {
            CHANGING_METHODS.contains(method) && !rules::is_stored_by_agent(method, path)
        });
        let operations = stored_here.map(|(method, path)| {
            let rule = FingerprintRule::of(&method, &path);
            ((method, path), rule)
        });
        Self { app, operations: Arc::new(operations.collect()) }
    }

    /// Returns the caller of a request that the layer handles, and the rule of its operation. Requests
    /// without a caller have no keys.
    fn caller(&self, request: &Request) -> Option<(Caller, FingerprintRule)> {
        if !request.headers().contains_key(idempotency::NAME) {
            return None;
        }
        let route = request.extensions().get::<MatchedPath>()?.as_str().to_owned();
        let IdentifiedCaller(Ok(caller)) = request.extensions().get()? else { return None };
        let rule = self.operations.get(&(request.method().clone(), route))?;
        Some((caller.clone(), *rule))
    }
}

/// Returns the operations of a path that change something.
pub(super) fn changing(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Whether an operation documents an `Idempotency-Key` itself.
pub(super) fn names_a_key(operation: &Operation) -> bool {
    operation.parameters.iter().flatten().any(|parameter| match parameter {
        RefOr::T(parameter) => {
            parameter.parameter_in == ParameterIn::Header
                && parameter.name.eq_ignore_ascii_case(idempotency::NAME.as_str())
        }
        RefOr::Ref(_) => false,
    })
}

/// Passes requests without a key, and runs requests with a key at most once.
pub async fn once(
    State(layer): State<IdempotencyLayer>,
    request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    let Some((caller, rule)) = layer.caller(&request) else { return Ok(next.run(request).await) };
    let Some(key) = idempotency::read_key(request.headers())? else { return Ok(next.run(request).await) };
    let app = layer.app;
    let (parts, body) = request.into_parts();
    let body = app.body_buffers.receive(body, caller.account).await?;
    let holder = credential_label(caller.credential);
    let keyed = IdempotentRequest {
        account: caller.account,
        digest: digest(&[holder.as_bytes(), key.as_bytes()]),
        holder,
        request: fingerprint::sealed(&app.fingerprint_key, &parts, &rule, &body).await?,
    };
    // The request has the only copy of the body, so its memory is freed as soon as the handler has read it.
    let request = Request::from_parts(parts, Body::from(body));
    let work = audit::propagate(at_most_once(Arc::clone(&app), keyed, request, next));
    // From here on a disconnect cancels nothing, because a recorded row must be completed.
    let task = app.tasks.spawn("idempotent request", work);
    let done =
        task.await.map_err(|error| Error::internal(format!("request with an Idempotency-Key: {error}")))?;
    Ok(done.unwrap_or_else(|| Err(Error::internal("a request with an Idempotency-Key panicked")))?)
}

/// Runs a request, or returns the result of the first one.
async fn at_most_once(
    app: AppState,
    keyed: IdempotentRequest,
    request: Request,
    next: Next,
) -> Result<Response> {
    if app.tasks.stopping().is_cancelled() {
        // It could be cut off before its end with an unknown outcome.
        return Err(Error::unavailable("The service is shutting down").retry_after(RETRY_SECONDS));
    }
    // The permit is taken before the row: a pending row with a free permit means that its task died.
    let permit = app.running_requests.try_acquire(keyed.digest.clone(), 1);
    let known =
        app.store.begin_request(&keyed, permit.is_some(), clock::now().minus(LIFE), RETENTION_LIMITS).await?;
    match (known, permit) {
        (RequestState::Mismatch, _) => Err(idempotency::reused()),
        (RequestState::Completed(answer), _) => answer::replay(answer),
        (RequestState::New, Some(permit)) => Ok(run_handler(&app, &keyed, permit, request, next).await),
        (RequestState::Pending, Some(_)) => Err(outcome_unknown()),
        (RequestState::Pending | RequestState::New, None) => Err(in_progress()),
    }
}

/// Runs the handler to its end, and stores the response before it is sent.
async fn run_handler(
    app: &AppState,
    keyed: &IdempotentRequest,
    permit: Permit<String>,
    request: Request,
    next: Next,
) -> Response {
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default();
    let (response, outcome) = answer::read(next.run(request).await, &id).await;
    if let Err(error) = store_outcome(app, keyed, outcome).await {
        // The client still gets its response; only a retry cannot be answered.
        tracing::error!(
            request_id = id,
            error = format_args!("{error:#}"),
            "could not store the response of a request with an Idempotency-Key"
        );
    }
    drop(permit);
    response
}

async fn store_outcome(app: &AppState, keyed: &IdempotentRequest, outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Final(answer) => app.store.store_response(keyed, &answer).await,
        // A request that the shutdown cut off may be completed by the next start, so its outcome is unknown.
        Outcome::Later if app.tasks.stopping().is_cancelled() => Ok(()),
        Outcome::Refused | Outcome::Later => app.store.forget_request(keyed).await,
    }
}

/// Removes expired keys.
///
/// # Errors
/// `Internal` when the database fails.
pub async fn sweep(app: &AppState) -> Result<()> {
    app.store.sweep_requests(clock::now().minus(LIFE)).await
}

fn in_progress() -> Error {
    Error::conflict("The first request with this Idempotency-Key is still in progress")
        .code(ErrorCode::IdempotencyInProgress)
        .retry_after(RETRY_SECONDS)
}

fn outcome_unknown() -> Error {
    Error::conflict(
        "The service stopped during this request: check its effect before you repeat it with another key",
    )
    .code(ErrorCode::OutcomeUnknown)
}
