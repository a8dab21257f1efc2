//! How is a request carried out at most once? With an `Idempotency-Key` it is noted in the store before and after, and carried
//! out to its end whether or not its client still waits (threats.md, consequence 6).
//!
//! ```text
//! the body arrives ([`spool`]) | a task of its own: noted -> handler -> answered
//! a hang-up leaves nothing     | a hang-up changes nothing
//! ```
//!
//! A service that is killed between the note and the handler leaves the same row as one that is killed in the handler: nobody can
//! tell them apart afterwards, and both are `outcome_unknown`.
//!
//! What the routes of actions and commands do is remembered by the computer's agent, in its own words; what passes through the
//! proxy path too. Both go by here untouched.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use super::auth::Identified;
use super::{Shared, audit};
use hotdesk_base::clock::now_ms;
use hotdesk_base::tally::{Seat, Tally};
use hotdesk_domain::access::Caller;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::idempotency::{self, digest};
use hotdesk_store::idempotency::{Keyed, Known, REMEMBERED, holder};

mod answer;
mod asked;
mod spool;
mod takes;

pub use spool::Spools;

use answer::Outcome;
use takes::Takes;

/// How long a key is remembered (the issue's "stored result for 24 h").
const LIFE_MS: i64 = 24 * 3_600_000;
/// When a client may ask again for what is still being carried out, or what an ending service does not begin, in seconds.
const RETRY_SECONDS: u32 = 1;

/// What is being carried out under a key, by its digest.
pub type Running = Tally<String>;

/// Where the layer notes things, and what it is about.
#[derive(Clone)]
pub struct Noting {
    app: Shared,
    /// The operations whose answers are kept here, and what they take.
    kept: Arc<HashMap<(Method, String), Takes>>,
}

impl Noting {
    /// For the operations of a document that change something and name no such header of their own.
    pub fn new(app: Shared, document: &OpenApi) -> Self {
        let mut kept = HashMap::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in changing(item) {
                if !names_a_key(operation) {
                    kept.insert((method, path.clone()), Takes::of(path, operation));
                }
            }
        }
        Self { app, kept: Arc::new(kept) }
    }

    /// Who asks, and what the operation takes, where its answers are kept. Who is nobody has no keys.
    fn caller(&self, request: &Request) -> Option<(Caller, Takes)> {
        if !request.headers().contains_key(idempotency::NAME) {
            return None;
        }
        let route = request.extensions().get::<MatchedPath>()?.as_str().to_owned();
        let Identified(Ok(caller)) = request.extensions().get()? else { return None };
        let takes = self.kept.get(&(request.method().clone(), route))?;
        Some((caller.clone(), takes.clone()))
    }
}

/// The operations of a path that change something.
pub(super) fn changing(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Whether an operation documents an `Idempotency-Key` of its own.
pub(super) fn names_a_key(operation: &Operation) -> bool {
    operation.parameters.iter().flatten().any(|parameter| match parameter {
        RefOr::T(parameter) => {
            parameter.parameter_in == ParameterIn::Header
                && parameter.name.eq_ignore_ascii_case(idempotency::NAME.as_str())
        }
        RefOr::Ref(_) => false,
    })
}

/// Lets a request without a key pass; one with a key is carried out at most once.
pub async fn once(State(noting): State<Noting>, request: Request, next: Next) -> Result<Response, HttpError> {
    let Some((caller, takes)) = noting.caller(&request) else { return Ok(next.run(request).await) };
    let Some(key) = idempotency::shown(request.headers())? else { return Ok(next.run(request).await) };
    let app = noting.app;
    let (parts, body) = request.into_parts();
    let spooled = app.spools.take(body, caller.account, &takes).await?;
    let holder = holder(caller.credential);
    let keyed = Keyed {
        account: caller.account,
        digest: digest(&[holder.as_bytes(), key.as_bytes()]),
        holder,
        request: asked::name(&parts, &takes, &spooled).await,
    };
    let request = Request::from_parts(parts, spooled.body());
    // Its room is free as soon as the handler has read it.
    drop(spooled);
    let work = audit::carried(at_most_once(Arc::clone(&app), keyed, request, next));
    // From here on nobody's leaving cancels anything: else a row could be noted that nobody carries out.
    let carried_out = app.tasks.spawn("idempotent request", work);
    let done = carried_out.await.map_err(|error| Error::internal(format!("a keyed request: {error}")))?;
    Ok(done.unwrap_or_else(|| Err(Error::internal("a keyed request panicked")))?)
}

/// Carries a request out, or tells what became of it.
async fn at_most_once(app: Shared, keyed: Keyed, request: Request, next: Next) -> Result<Response> {
    if app.tasks.stopping().is_cancelled() {
        // It might be broken off before its end, and nobody could say how far it came.
        return Err(Error::unavailable("The service is about to end").retry_after(RETRY_SECONDS));
    }
    // Before the row: who finds a row without an answer and a free place knows that nobody is at it any more.
    let place = app.running.admit(keyed.digest.clone(), 1);
    let known = app.store.begin_request(&keyed, place.is_some(), now_ms() - LIFE_MS, REMEMBERED).await?;
    match (known, place) {
        (Known::Another, _) => Err(idempotency::reused()),
        (Known::Answered(answer), _) => answer::tell_again(answer),
        (Known::Nothing, Some(place)) => Ok(carry_out(&app, &keyed, place, request, next).await),
        (Known::Begun, Some(_)) => Err(outcome_unknown()),
        (Known::Begun | Known::Nothing, None) => Err(in_progress()),
    }
}

/// Runs the handler to its end, and keeps what it answered before anybody hears it.
async fn carry_out(
    app: &Shared,
    keyed: &Keyed,
    place: Seat<String>,
    request: Request,
    next: Next,
) -> Response {
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default();
    let (response, outcome) = answer::read(next.run(request).await, &id).await;
    if let Err(error) = note(app, keyed, outcome).await {
        // The client hears what was done; only a retry will not know it.
        tracing::error!(request_id = id, %error, "an answer could not be kept");
    }
    drop(place);
    response
}

async fn note(app: &Shared, keyed: &Keyed, outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Final(answer) => app.store.answer_request(keyed, &answer).await,
        // What is broken off by the service's own end may be finished by its next start: nobody knows yet.
        Outcome::Later if app.tasks.stopping().is_cancelled() => Ok(()),
        Outcome::Refused | Outcome::Later => app.store.forget_request(keyed).await,
    }
}

/// Forgets the keys whose time is over.
///
/// # Errors
/// When the store fails.
pub async fn sweep(app: &Shared) -> Result<()> {
    app.store.sweep_requests(now_ms() - LIFE_MS).await
}

fn in_progress() -> Error {
    Error::conflict("The first request with this Idempotency-Key is still being carried out")
        .code("idempotency_in_progress")
        .retry_after(RETRY_SECONDS)
}

fn outcome_unknown() -> Error {
    Error::conflict(
        "The service ended while it carried this request out: look before you repeat it under another key",
    )
    .code("outcome_unknown")
}
