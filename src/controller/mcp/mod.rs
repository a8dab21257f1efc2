//! How does a client that speaks MCP reach the computers? At `/mcp`, by streamable HTTP, with an access token on every request.
//!
//! ```text
//! hosts::check -> audit::refusals -> Origin -> token -> rate -> rmcp (sessions before 2026-07-28, none since) -> tools
//!     -> the REST handlers
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::auth::source::Source;
use super::auth::{ClientName, live};
use super::oauth::challenge::{Why, challenge};
use super::origin::Origin;
use super::{Shared, audit};
use hotdesk_base::ids::{AccountId, GrantId};
use hotdesk_base::tally::Tally;
use hotdesk_domain::api_key;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::bearer::{self, Shown};
use hotdesk_http::error_response;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::extract::{MAX_JSON_BYTES, read_body};

mod answer;
mod desk;
mod sessions;
mod tools;

use desk::Desk;
use sessions::{Own, Owner, Sessions};

/// Which session a request belongs to.
const SESSION: &str = "mcp-session-id";
/// Longest refusal of the protocol's crate that is passed on, in bytes; they are sentences.
const MAX_REFUSAL: usize = 4096;

/// The clients that are connected.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    sessions: Arc<Sessions>,
    calls: Tally<AccountId>,
}

impl Clients {
    /// Ends what a connection has open, once it is revoked.
    pub async fn end(&self, grant: GrantId) {
        self.sessions.end(grant).await;
    }
}

/// The server's route.
pub fn router(app: Shared) -> Router<Shared> {
    Router::new().route("/mcp", any(enter)).route_layer(from_fn_with_state(app, audit::refusals))
}

/// Every request: first whether its page may (access.md A76), then whose token it shows.
async fn enter(State(app): State<Shared>, own: Origin, source: Source, request: Request) -> Response {
    let page = match app.page_of(&own, request.headers()) {
        Ok(page) => page,
        Err(refused) => return HttpError(refused).into_response(),
    };
    let mut response = match page {
        Some(_) if request.method() == Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => {
            serve(&app, &own, source, request).await.unwrap_or_else(|error| HttpError(error).into_response())
        }
    };
    if let Some(page) = page {
        share(response.headers_mut(), &page);
    }
    response
}

async fn serve(app: &Shared, own: &Origin, source: Source, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let found = match bearer::shown(&parts.headers) {
        Shown::Nothing => Err(Why::NoToken),
        Shown::Unusable => Err(Why::BadToken),
        Shown::Bearer(token) => {
            let wrong = if token.starts_with(api_key::PREFIX) { Why::ApiKey } else { Why::BadToken };
            app.hold_grant(token).await?.ok_or(wrong)
        }
    };
    let (caller, client, hold) = match found {
        Ok(found) => found,
        Err(Why::NoToken) => return Ok(challenge(own, Why::NoToken)),
        Err(why) => {
            let one_too_many = app.guessed(source, "Invalid access token");
            return Ok(one_too_many.unwrap_or_else(|| challenge(own, why)));
        }
    };
    app.guesses.forget(&source);
    audit::by(caller.credential, caller.account);
    let standing = match app.rates.take(&caller.credential) {
        Ok(standing) => standing,
        Err(standing) => {
            let mut refused = HttpError(Error::rate_limited(standing.seconds)).into_response();
            standing.write(refused.headers_mut());
            return Ok(refused);
        }
    };
    let owner = Owner::of(&caller);
    let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok());
    // The crate ends whatever session it is told; the other methods ask `Own`.
    if parts.method == Method::DELETE && session.is_some_and(|id| !app.mcp.sessions.is_of(id, owner)) {
        return Err(Error::not_found("Session not found"));
    }
    // It has been looked at, and goes no further (access.md A57).
    parts.headers.remove(header::AUTHORIZATION);
    parts.extensions.insert(caller);
    parts.extensions.insert(ClientName(client));
    parts.extensions.insert(own.clone());
    // Whoever ends the connection ends what goes on under it, its request on its way in too.
    let answering = async {
        let answered = async {
            let body = read_body(body, MAX_JSON_BYTES).await?;
            let served = protocol(app, owner).handle(Request::from_parts(parts, Body::from(body))).await;
            worded(app, served.map(Body::new)).await
        };
        answered.await.unwrap_or_else(|error: Error| HttpError(error).into_response())
    };
    let mut response = live::under(Some(hold), answering).await;
    standing.write(response.headers_mut());
    Ok(response)
}

/// The protocol for one request. Hosts and origins were looked at, and the body was read within its bounds.
fn protocol(app: &Shared, owner: Owner) -> StreamableHttpService<Desk, Own> {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_JSON_BYTES)
        .with_json_response(true)
        .with_cancellation_token(app.tasks.stopping());
    let desk = Desk(Arc::clone(app));
    let own = Own { all: Arc::clone(&app.mcp.sessions), owner };
    StreamableHttpService::new(move || Ok(desk.clone()), Arc::new(own), config)
}

/// Gives the crate's refusals in plain text the form that all of ours have.
async fn worded(app: &Shared, response: Response) -> Result<Response> {
    let status = response.status();
    let json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if json || !(status.is_client_error() || status.is_server_error()) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let said = axum::body::to_bytes(body, MAX_REFUSAL).await.unwrap_or_else(|_| Bytes::new());
    let said = String::from_utf8_lossy(&said);
    if status.is_server_error() {
        let ending = app.tasks.stopping().is_cancelled();
        let away = || Error::unavailable("The service is shutting down").retry_after(5);
        return Err(if ending { away() } else { Error::internal(said) });
    }
    // The crate says 415 of whatever is no message of JSON-RPC.
    let unreadable = said.starts_with("fail to deserialize");
    let status = if unreadable { StatusCode::BAD_REQUEST } else { status };
    let mut refused = error_response::with_status(status, Error::invalid(said));
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        refused.headers_mut().insert(header::ALLOW, allow.clone());
    }
    Ok(refused)
}

/// Lets a page that may reach us read what it is answered (the Fetch standard, "CORS protocol").
fn share(headers: &mut HeaderMap, page: &str) {
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, DELETE"),
        // The star is for all but the first.
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, *"),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "mcp-session-id, www-authenticate, x-request-id, retry-after",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
        (header::VARY, "origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(page) = HeaderValue::from_str(page) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    }
}
