//! Folders of the computer and what is in them.

use crate::auth::Authenticated;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_guest::QUICK;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::guest_file::{
    DeleteQuery, Deleted, HashQuery, Hashed, ListQuery, Listing, Made, Mkdir, MoveFile, Moved, PathQuery,
    Stat,
};

/// For what reads or removes much: the agent's own bound of 300 s, and a margin.
const SLOW: Duration = Duration::from_secs(315);

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stat))
        .routes(routes!(hash))
        .routes(routes!(mkdir))
        .routes(routes!(move_file))
        .routes(routes!(delete))
}

/// What is in a folder, in pages.
#[utoipa::path(get, path = "/computers/{id}/files/list", tag = "computer files",
    params(("id" = String, Path), ListQuery),
    responses((status = 200, description = "Sorted by name", body = Listing)))]
async fn list(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Listing>> {
    ask(state, caller, id, Method::GET, "/files/list", query, None::<&()>, QUICK).await
}

/// What a path names; a link is described itself.
#[utoipa::path(get, path = "/computers/{id}/files/stat", tag = "computer files",
    params(("id" = String, Path), PathQuery),
    responses((status = 200, description = "What is there", body = Stat)))]
async fn stat(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Query(query): Query<PathQuery>,
) -> Result<Json<Stat>> {
    ask(state, caller, id, Method::GET, "/files/stat", query, None::<&()>, QUICK).await
}

/// The digest of a file.
#[utoipa::path(get, path = "/computers/{id}/files/hash", tag = "computer files",
    params(("id" = String, Path), HashQuery),
    responses((status = 200, description = "The digest", body = Hashed)))]
async fn hash(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Query(query): Query<HashQuery>,
) -> Result<Json<Hashed>> {
    ask(state, caller, id, Method::GET, "/files/hash", query, None::<&()>, SLOW).await
}

/// Makes a folder.
#[utoipa::path(post, path = "/computers/{id}/files/mkdir", tag = "computer files",
    params(("id" = String, Path)), request_body = Mkdir,
    responses((status = 200, description = "It is there", body = Made)))]
async fn mkdir(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Body(body): Body<Mkdir>,
) -> Result<Json<Made>> {
    ask(state, caller, id, Method::POST, "/files/mkdir", (), Some(&body), QUICK).await
}

/// Moves or renames a file, a folder or a link.
#[utoipa::path(post, path = "/computers/{id}/files/move", tag = "computer files",
    params(("id" = String, Path)), request_body = MoveFile,
    responses((status = 200, description = "It is there", body = Moved)))]
async fn move_file(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Body(body): Body<MoveFile>,
) -> Result<Json<Moved>> {
    ask(state, caller, id, Method::POST, "/files/move", (), Some(&body), SLOW).await
}

/// Removes a file, a link or a folder; never through a link, never the root or the home folder.
#[utoipa::path(delete, path = "/computers/{id}/files", tag = "computer files",
    params(("id" = String, Path), DeleteQuery),
    responses((status = 200, description = "What is gone", body = Deleted)))]
async fn delete(
    state: State<Shared>,
    caller: Authenticated,
    id: Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<Deleted>> {
    ask(state, caller, id, Method::DELETE, "/files", query, None::<&()>, SLOW).await
}

#[allow(clippy::too_many_arguments)] // Each names one part of the request.
async fn ask<Receive: DeserializeOwned>(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    method: Method,
    path: &str,
    query: impl Serialize,
    body: Option<&(impl Serialize + Sync)>,
    patience: Duration,
) -> Result<Json<Receive>> {
    let computer = app.find_computer(&caller, &id).await?;
    let guest = app.guest_for(&method, &computer).await?;
    Ok(Json(guest.call(method, path, query, body, patience).await?))
}
