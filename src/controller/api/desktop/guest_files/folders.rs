//! Folders of a computer and their entries.

use crate::identity::auth::AuthenticatedCaller;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::desktop::forward;
use hotdesk_guest::QUICK_TIMEOUT;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::files::guest_file::{
    DeleteQuery, DeleteResult, FileHash, FileMoved, FolderCreated, FolderListQuery, HashQuery, Listing,
    Mkdir, MoveFile, PathQuery, Stat,
};

/// Timeout of operations on much data: the agent's own limit of 300 s, and a margin.
const SLOW_TIMEOUT: Duration = Duration::from_secs(315);

pub(super) fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list))
        .routes(routes!(stat))
        .routes(routes!(hash))
        .routes(routes!(mkdir))
        .routes(routes!(move_file))
        .routes(routes!(delete))
}

/// Lists a folder in pages.
#[utoipa::path(get, path = "/computers/{id}/files/list", tag = "computer files",
    params(("id" = String, Path), FolderListQuery),
    responses((status = 200, description = "The entries, sorted by name", body = Listing)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<FolderListQuery>,
) -> Result<Json<Listing>> {
    forward(&app, &caller, &id, Method::GET, "/files/list", query, None::<&()>, QUICK_TIMEOUT).await
}

/// Returns the metadata of a path.
///
/// Links are not followed.
#[utoipa::path(get, path = "/computers/{id}/files/stat", tag = "computer files",
    params(("id" = String, Path), PathQuery),
    responses((status = 200, description = "The metadata", body = Stat)))]
pub(crate) async fn stat(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<PathQuery>,
) -> Result<Json<Stat>> {
    forward(&app, &caller, &id, Method::GET, "/files/stat", query, None::<&()>, QUICK_TIMEOUT).await
}

/// Returns the digest of a file.
#[utoipa::path(get, path = "/computers/{id}/files/hash", tag = "computer files",
    params(("id" = String, Path), HashQuery),
    responses((status = 200, description = "The digest", body = FileHash)))]
async fn hash(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<HashQuery>,
) -> Result<Json<FileHash>> {
    forward(&app, &caller, &id, Method::GET, "/files/hash", query, None::<&()>, SLOW_TIMEOUT).await
}

/// Creates a folder.
#[utoipa::path(post, path = "/computers/{id}/files/mkdir", tag = "computer files",
    params(("id" = String, Path)), request_body = Mkdir,
    responses((status = 200, description = "The folder exists", body = FolderCreated)))]
async fn mkdir(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(body): Body<Mkdir>,
) -> Result<Json<FolderCreated>> {
    forward(&app, &caller, &id, Method::POST, "/files/mkdir", (), Some(&body), QUICK_TIMEOUT).await
}

/// Moves or renames a file, a folder or a link.
#[utoipa::path(post, path = "/computers/{id}/files/move", tag = "computer files",
    params(("id" = String, Path)), request_body = MoveFile,
    responses((status = 200, description = "It was moved", body = FileMoved)))]
async fn move_file(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(body): Body<MoveFile>,
) -> Result<Json<FileMoved>> {
    forward(&app, &caller, &id, Method::POST, "/files/move", (), Some(&body), SLOW_TIMEOUT).await
}

/// Removes a file, a link or a folder.
///
/// Links are not followed. The root and the home folder cannot be removed.
#[utoipa::path(delete, path = "/computers/{id}/files", tag = "computer files",
    params(("id" = String, Path), DeleteQuery),
    responses((status = 200, description = "What was removed", body = DeleteResult)))]
async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<DeleteResult>> {
    forward(&app, &caller, &id, Method::DELETE, "/files", query, None::<&()>, SLOW_TIMEOUT).await
}
