//! Routes `GET` and `PUT /files/archive?path=`: a folder as a tar archive.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json as Answer, Router};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::content::last_name;
use crate::files::archive::pack::{self, ArchiveSelection};
use crate::files::archive::{prefix, unpack};
use crate::files::blocking;
use crate::state::Agent;
use hotdesk_domain::error::Error;
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::{self, Result};
use hotdesk_http::extract::Query;
use hotdesk_wire::files::guest_file::{ArchiveQuery, UnpackQuery, UnpackResult};

pub(super) fn router() -> Router<Agent> {
    Router::new().route("/files/archive", get(pack_folder).put(unpack_into))
}

async fn pack_folder(
    State(agent): State<Agent>,
    Query(query): Query<ArchiveQuery>,
    method: Method,
    expected: HeaderMap,
) -> Result<Response> {
    let after = pack::relative(&query.after)?;
    let home = agent.home.clone();
    let (mut folder, path) = blocking(move || pack::open(&home, &query.path)).await?;
    let named = attachment(&format!("{}.tar", last_name(&path.to_string_lossy())));
    let headers =
        [(header::CONTENT_TYPE, "application/x-tar".to_owned()), (header::CONTENT_DISPOSITION, named)];
    if method == Method::HEAD {
        return Ok(headers.into_response());
    }
    let slot = agent.files.slot()?;
    if let Some(expected) = expected.get(header::IF_MATCH) {
        let last = after.clone();
        let digest;
        (digest, folder) = blocking(move || Ok((prefix::digest(&folder, &last)?, folder))).await?;
        if expected != digest.etag().as_str() {
            let error = Error::conflict("the entries of the folder up to `after` have changed");
            return Ok(error_response::with_status(StatusCode::PRECONDITION_FAILED, error));
        }
    }
    let (sender, receiver) = mpsc::channel(pack::WAITING_PIECES);
    let handle = Handle::current();
    // It ends with its last piece, or when the body is dropped; no task waits for it.
    let _task = hotdesk_base::tasks::spawn_blocking(move || {
        let _slot = slot;
        pack::pack(&folder, &ArchiveSelection::After(after), sender, handle);
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
