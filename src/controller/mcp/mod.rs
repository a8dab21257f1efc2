//! MCP server: streamable HTTP with a credential on every request, an access token at `/mcp` and an API key
//! at `/mcp/stdio`, for the relay `hotdesk mcp` (docs/api/mcp.md).
//!
//! ```text
//! hosts::check -> audit::record_refusals -> Origin -> token or key -> rate limit
//!     -> rmcp (with sessions for protocol versions before 2026-07-28) -> tools -> REST handlers
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::identity::auth::revocation;
use crate::web::caller::ClientName;
use crate::web::cors;
use crate::web::origin::Origin;
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Credential;
use hotdesk_http::error_response;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::extract::{MAX_JSON_BYTES, read_body};

mod access;
mod answer;
mod confirmation;
mod handler;
mod output_schema;
mod progress;
mod sessions;
mod subscriptions;
mod tools;

use access::{AcceptedCredential, Admission, KnownCaller};
use handler::McpHandler;
use sessions::{McpSessions, OwnedSessions, SessionOwner};

/// Header field with the session of a request.
const SESSION: &str = "mcp-session-id";
/// Bytes of an rmcp error text that are passed on; they are sentences.
const MAX_REFUSAL: usize = 4096;

/// Sessions, calls and subscriptions of all MCP clients.
#[derive(Debug, Default)]
pub struct McpClients {
    sessions: Arc<McpSessions>,
    calls: KeyedSemaphore<AccountId>,
    /// Calls that wait for the end of long work.
    waits: KeyedSemaphore<AccountId>,
    subscriptions: KeyedSemaphore<AccountId>,
}

impl McpClients {
    /// Ends the sessions of revoked connections, whose tokens are refused already, and forgets the sessions
    /// that ended by themselves.
    pub async fn close_ended(&self) {
        self.sessions.close_ended().await;
    }
}

/// Returns the routes of the server.
pub fn router(app: AppState) -> Router<AppState> {
    Router::new()
        .route("/mcp", any(enter))
        .route("/mcp/stdio", any(enter_by_key))
        .route_layer(from_fn_with_state(app, audit::record_refusals))
}

/// Handles a request with an API key.
async fn enter_by_key(
    State(app): State<AppState>,
    own: Origin,
    source: Source,
    request: Request,
) -> Response {
    let served = serve(&app, &own, source, AcceptedCredential::ApiKey, request).await;
    served.unwrap_or_else(|error| HttpError(error).into_response())
}

/// Handles a request with an access token: checks its origin, A76 (docs/authentication-rules.md), then the
/// token.
async fn enter(State(app): State<AppState>, own: Origin, source: Source, request: Request) -> Response {
    let page = match app.hosts.page_of(&own, request.headers()) {
        Ok(page) => page,
        Err(refused) => return HttpError(refused).into_response(),
    };
    let mut response = match page {
        Some(_) if request.method() == Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => {
            let served = serve(&app, &own, source, AcceptedCredential::AccessToken, request).await;
            served.unwrap_or_else(|error| HttpError(error).into_response())
        }
    };
    if let Some(page) = page {
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
        cors::allow_page(response.headers_mut(), page);
    }
    response
}

async fn serve(
    app: &AppState,
    own: &Origin,
    source: Source,
    accepted: AcceptedCredential,
    request: Request,
) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let known = match access::check(app, own, source, accepted, &parts).await? {
        Admission::Granted(known) => known,
        Admission::Refusal(refused) => return Ok(refused),
    };
    let KnownCaller { caller, client, lease: hold, rate_status } = known;
    let owner = SessionOwner::of(&caller);
    let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok());
    // rmcp deletes any session id; the other methods check [`OwnedSessions`].
    if parts.method == Method::DELETE && session.is_some_and(|id| !app.mcp.sessions.is_of(id, owner)) {
        return Err(Error::not_found("Session not found"));
    }
    // The token was checked and is not passed on, A57 (docs/authentication-rules.md).
    parts.headers.remove(header::AUTHORIZATION);
    parts.extensions.insert(caller);
    parts.extensions.insert(ClientName(client));
    parts.extensions.insert(own.clone());
    // If the connection is revoked, the request ends, even while its body is received.
    let lease = hold.clone();
    let answering = async {
        let answered = async {
            let body = read_body(body, MAX_JSON_BYTES).await?;
            let served =
                protocol(app, owner, lease).handle(Request::from_parts(parts, Body::from(body))).await;
            as_error_body(app, served.map(Body::new)).await
        };
        answered.await.unwrap_or_else(|error: Error| HttpError(error).into_response())
    };
    let mut response = revocation::under(Some(hold), answering).await;
    rate_status.write(response.headers_mut());
    Ok(response)
}

/// Creates the protocol service for one request. Host, origin and body size were checked before.
///
/// Without a session the answer is JSON, or a stream when a notification comes before the result.
fn protocol(
    app: &AppState,
    owner: SessionOwner,
    lease: Lease<Credential>,
) -> StreamableHttpService<McpHandler, OwnedSessions> {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_JSON_BYTES)
        .with_json_response(true)
        .with_cancellation_token(app.tasks.stopping());
    let app_of_handler = Arc::clone(app);
    let own = OwnedSessions { all: Arc::clone(&app.mcp.sessions), owner, lease };
    let handler = move || Ok(McpHandler::new(Arc::clone(&app_of_handler)));
    StreamableHttpService::new(handler, Arc::new(own), config)
}

/// Converts rmcp's plain-text errors to the service's error body.
async fn as_error_body(app: &AppState, response: Response) -> Result<Response> {
    let status = response.status();
    let json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if json || !(status.is_client_error() || status.is_server_error()) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MAX_REFUSAL).await.unwrap_or_else(|_| Bytes::new());
    let text = String::from_utf8_lossy(&text);
    if status.is_server_error() {
        let ending = app.tasks.stopping().is_cancelled();
        let away = || Error::unavailable("The service is shutting down").retry_after(5);
        return Err(if ending { away() } else { Error::internal(text) });
    }
    // rmcp responds 415 to anything that is not a JSON-RPC message.
    let unreadable = text.starts_with("fail to deserialize");
    let status = if unreadable { StatusCode::BAD_REQUEST } else { status };
    let mut refused = error_response::with_status(status, Error::invalid(text));
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        refused.headers_mut().insert(header::ALLOW, allow.clone());
    }
    Ok(refused)
}
