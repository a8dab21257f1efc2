//! Routes for folders and their entries: `GET list`, `stat`, `hash`; `POST mkdir`, `move`; `DELETE`.

use std::path::Path;

use axum::extract::State;
use axum::routing::{delete, get, post};
use axum::{Json as Answer, Router};
use tokio_util::sync::CancellationToken;

use crate::files::{blocking, entry, hash, list, mkdir, relocate, remove};
use crate::state::Agent;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Query};
use hotdesk_wire::files::guest_file::{
    DeleteQuery, DeleteResult, FileHash, FileMoved, FolderCreated, FolderListQuery, HashQuery, Listing,
    Mkdir, MoveFile, PathQuery, Stat,
};

pub(super) fn router() -> Router<Agent> {
    Router::new()
        .route("/files", delete(remove_path))
        .route("/files/list", get(list_folder))
        .route("/files/stat", get(stat_path))
        .route("/files/hash", get(hash_file))
        .route("/files/mkdir", post(make_folder))
        .route("/files/move", post(move_path))
}

async fn list_folder(state: State<Agent>, Query(query): Query<FolderListQuery>) -> Result<Answer<Listing>> {
    quick(state, move |home| list::list(home, &query)).await
}

async fn stat_path(state: State<Agent>, Query(query): Query<PathQuery>) -> Result<Answer<Stat>> {
    quick(state, move |home| entry::stat(home, &query.path)).await
}

async fn make_folder(state: State<Agent>, Body(body): Body<Mkdir>) -> Result<Answer<FolderCreated>> {
    quick(state, move |home| mkdir::mkdir(home, &body)).await
}

async fn move_path(state: State<Agent>, Body(body): Body<MoveFile>) -> Result<Answer<FileMoved>> {
    slow(state, move |home, _| relocate::relocate(home, &body)).await
}

async fn hash_file(state: State<Agent>, Query(query): Query<HashQuery>) -> Result<Answer<FileHash>> {
    slow(state, move |home, stop| hash::hash(home, &query, stop)).await
}

async fn remove_path(state: State<Agent>, Query(query): Query<DeleteQuery>) -> Result<Answer<DeleteResult>> {
    slow(state, move |home, stop| remove::remove(home, &query, stop)).await
}

async fn quick<T: Send + 'static>(
    State(agent): State<Agent>,
    work: impl FnOnce(&Path) -> Result<T, Error> + Send + 'static,
) -> Result<Answer<T>> {
    let home = agent.home.clone();
    Ok(Answer(blocking(move || work(&home)).await?))
}

/// Runs a long operation: it needs a transfer permit, and ends when the client disconnects.
async fn slow<T: Send + 'static>(
    State(agent): State<Agent>,
    work: impl FnOnce(&Path, &CancellationToken) -> Result<T, Error> + Send + 'static,
) -> Result<Answer<T>> {
    let (home, slot, stop) = (agent.home.clone(), agent.files.slot()?, CancellationToken::new());
    let _disconnected = stop.clone().drop_guard();
    let done = blocking(move || {
        let _slot = slot;
        work(&home, &stop)
    });
    Ok(Answer(done.await?))
}
