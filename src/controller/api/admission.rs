//! Admission: the access check of the object that a path names, before the rest of the request is read.
//!
//! A request without access gets its 403 or 404 whatever it sends, so a 400 tells nothing about the body or
//! the query that a foreign object takes. The handler checks again, because access may end while a body
//! arrives. An object that only a body or a query names is checked by the handler alone.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;

use crate::AppState;
use crate::web::caller::IdentifiedCaller;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::{Caller, Role, check_account_wide};
use hotdesk_http::error_response::HttpError;

/// Beginnings of routes that concern the account alone.
const ACCOUNT_ROUTES: [&str; 7] = [
    "/account/",
    "/agent-accounts/claim-link",
    "/operator/",
    "/templates/starred",
    "/templates/{id}/star",
    "/templates/{namespace}",
    "/v1/accounts",
];
/// The route that is the beginning of others, which every key may use.
const ALL_TEMPLATES: &str = "/templates";

/// Beginning of the routes of a computer's files.
const FILES: &str = "/computers/{id}/files";
/// The route of a service's output, which is any file that the template names.
const SERVICE_LOG: &str = "/computers/{id}/services/{service}/log";
/// The route of triggers, whose runs show lines of logs and names of files.
const TRIGGERS: &str = "/computers/{id}/triggers";

/// Beginning of the routes of a chat thread.
const THREAD: &str = "/chat/threads/{id}";
/// Routes of a chat thread that show output of commands and contents of files.
const THREAD_STEPS: [&str; 2] = ["/chat/threads/{id}/steps", "/chat/threads/{id}/export"];

/// Changing operations that a viewer may use in part: tickets to view, and leaving a workspace.
const OPEN_TO_VIEWERS: [(Method, &str); 2] =
    [(Method::POST, "/computers/{id}/stream-tickets"), (Method::DELETE, "/workspaces/{id}/members")];

/// Operations that only admins and the owner of a workspace may use.
const OF_ADMINS: [(Method, &str); 4] = [
    (Method::PATCH, "/workspaces/{id}"),
    (Method::PATCH, "/workspaces/{id}/members"),
    (Method::POST, "/workspaces/{id}/invite"),
    (Method::DELETE, "/workspaces/{id}/invite"),
];

/// Layer that refuses requests whose caller may not use the object that the path names. A request without a
/// caller passes: its handler refuses it, or needs none.
pub async fn check(State(app): State<AppState>, request: Request, next: Next) -> Result<Response, HttpError> {
    let (mut parts, body) = request.into_parts();
    admit(&app, &mut parts).await?;
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn admit(app: &AppState, parts: &mut Parts) -> Result<()> {
    let id = path_id(parts).await;
    let known = &parts.extensions;
    let (Some(route), Some(IdentifiedCaller(Ok(caller)))) = (known.get::<MatchedPath>(), known.get()) else {
        return Ok(());
    };
    let route = route.as_str();
    if route == ALL_TEMPLATES || ACCOUNT_ROUTES.iter().any(|beginning| route.starts_with(beginning)) {
        return check_account_wide(caller, "use what concerns the account");
    }
    let Some(id) = id else { return Ok(()) };
    let is_in = |table: &[(Method, &str)]| table.iter().any(|row| *row == (parts.method.clone(), route));
    let reader: Caller;
    let caller = if is_in(&OPEN_TO_VIEWERS) {
        reader = caller.for_read();
        &reader
    } else {
        caller
    };
    if route.starts_with("/computers/{id}") {
        let (computer, role) = app.directory.find_computer_as(caller, &id).await?;
        if route.starts_with(FILES) || route == SERVICE_LOG || route == TRIGGERS {
            app.directory.check_files(role, &computer).await?;
        }
    } else if THREAD_STEPS.contains(&route) {
        app.threads.find_with_steps(caller, &id).await?;
    } else if route.starts_with(THREAD) {
        app.threads.find(caller, &id).await?;
    } else if route.starts_with("/workspaces/{id}") {
        let least = if is_in(&OF_ADMINS) { Role::Admin } else { Role::Viewer };
        app.directory.find_workspace_as(caller, &id, least).await?;
    }
    Ok(())
}

/// The path's parameter `id`; `None` without one, and for text that is not UTF-8, which the handler refuses.
async fn path_id(parts: &mut Parts) -> Option<String> {
    let parameters = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    parameters.iter().find(|(name, _)| *name == "id").map(|(_, value)| value.to_owned())
}
