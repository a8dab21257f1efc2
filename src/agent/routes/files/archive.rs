//! Routes `GET` and `PUT /files/archive?path=`: a folder as a tar archive.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json as Answer, Router};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::content::last_name;
use crate::files::archive::pack::{self, Selection};
use crate::files::archive::unpack;
use crate::files::blocking;
use crate::state::Agent;
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_wire::files::guest_file::{ArchiveQuery, UnpackQuery, UnpackResult};

pub(super) fn router() -> Router<Agent> {
    Router::new().route("/files/archive", get(pack_folder).put(unpack_into))
}

async fn pack_folder(
    State(agent): State<Agent>,
    Query(query): Query<ArchiveQuery>,
    method: Method,
) -> Result<Response> {
    let selection = Selection::After(pack::relative(&query.after)?);
    let home = agent.home.clone();
    let (folder, path) = blocking(move || pack::open(&home, &query.path)).await?;
    let named = attachment(&format!("{}.tar", last_name(&path.to_string_lossy())));
    let headers =
        [(header::CONTENT_TYPE, "application/x-tar".to_owned()), (header::CONTENT_DISPOSITION, named)];
    if method == Method::HEAD {
        return Ok(headers.into_response());
    }
    let slot = agent.files.slot()?;
    let (sender, receiver) = mpsc::channel(pack::WAITING_PIECES);
    let handle = Handle::current();
    // It ends with its last piece, or when the body is dropped; no task waits for it.
    let _task = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        pack::pack(&folder, &selection, sender, handle);
    });
    Ok((headers, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

async fn unpack_into(
    State(agent): State<Agent>,
    Query(query): Query<UnpackQuery>,
    body: Body,
) -> Result<Answer<UnpackResult>> {
    Ok(Answer(unpack::put(&agent.files, agent.home.clone(), query, body).await?))
}
