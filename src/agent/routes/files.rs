//! `PUT /files/desktop/{filename}` and `GET /files/content?path=`: the controller's way to a computer's files.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json as Answer, Router};
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::agent::files::{place, read};
use crate::agent::state::Agent;
use crate::domain::error::{Error, Result};
use crate::domain::filename::FileName;
use crate::http::extract::{Path, Query};
use crate::wire::agent::PutResult;

/// Bytes read from a file at once; larger pieces gain nothing on a local disk.
const CHUNK: usize = 64 * 1024;

pub fn router() -> Router<Agent> {
    Router::new()
        .route("/files/desktop/{filename}", put(put_on_desktop))
        .route("/files/content", get(content))
}

async fn put_on_desktop(
    State(agent): State<Agent>,
    Path(filename): Path<String>,
    body: Body,
) -> Result<Answer<PutResult>> {
    let name = FileName::parse(&filename)?;
    place::put(agent.home.clone(), name, body).await.map(Answer)
}

#[derive(Deserialize)]
struct ContentQuery {
    path: String,
}

async fn content(State(agent): State<Agent>, Query(query): Query<ContentQuery>) -> Result<Response> {
    let home = agent.home.clone();
    let opened = tokio::task::spawn_blocking(move || read::open(&home, &query.path)).await;
    let content = opened.map_err(|error| Error::internal(format!("opening broke down: {error}")))??;
    let file = tokio::fs::File::from_std(content.file).take(content.length);
    let headers =
        [(header::CONTENT_TYPE, content.media_type), (header::CONTENT_LENGTH, content.length.to_string())];
    Ok((headers, Body::from_stream(ReaderStream::with_capacity(file, CHUNK))).into_response())
}
