//! Routes `PUT /files/desktop/{filename}`, and `GET` and `PUT /files/content?path=`.

use std::io::SeekFrom;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json as Answer, Router};
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::files::range::{RequestedPart, if_none_match_matches, if_range_matches, requested_part};
use crate::files::read::OpenFile;
use crate::files::write::upload::UploadedFile;
use crate::files::write::version::ExpectedVersion;
use crate::files::write::{desktop_upload, upload};
use crate::files::{blocking, read};
use crate::state::Agent;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::FileName;
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::{self, Result};
use hotdesk_http::extract::{Path, Query};
use hotdesk_wire::agent::{ContentQuery, PutResult};
use hotdesk_wire::files::guest_file::PutQuery;

/// Bytes read from a file at once; larger pieces are not faster on a local disk.
const CHUNK: usize = 64 * 1024;

pub(super) fn router() -> Router<Agent> {
    Router::new()
        .route("/files/desktop/{filename}", put(put_on_desktop))
        .route("/files/content", get(content).put(put_content))
}

async fn put_on_desktop(
    State(agent): State<Agent>,
    Path(filename): Path<String>,
    body: Body,
) -> Result<Answer<PutResult>> {
    let name = FileName::parse(&filename)?;
    Ok(Answer(desktop_upload::put(&agent.files, agent.home.clone(), name, body).await?))
}

async fn put_content(
    State(agent): State<Agent>,
    Query(query): Query<PutQuery>,
    fields: HeaderMap,
    body: Body,
) -> Result<Response> {
    let expected = fields.get(header::IF_MATCH).map(|field| {
        // A tag of ours is text, so that any other value names no version.
        ExpectedVersion::new(field.to_str().unwrap_or_default())
    });
    match upload::put(&agent.files, agent.home.clone(), query, expected, body).await {
        Ok(UploadedFile { written, etag }) => Ok(([(header::ETAG, etag)], Answer(written)).into_response()),
        Err(error) if error.code == Some(ErrorCode::FileChanged) => {
            Ok(error_response::with_status(StatusCode::PRECONDITION_FAILED, error))
        }
        Err(error) => Err(error.into()),
    }
}

/// Also serves `HEAD`, for which ranges do not apply (RFC 9110 section 14.2).
async fn content(
    State(agent): State<Agent>,
    Query(query): Query<ContentQuery>,
    method: Method,
    request_headers: HeaderMap,
) -> Result<Response> {
    let home = agent.home.clone();
    let open = if query.within_home { read::open_within_home } else { read::open };
    serve(blocking(move || open(&home, &query.path)).await?, &method, &request_headers).await
}

/// Answers with a file or the requested part of it.
pub(in crate::routes) async fn serve(
    content: OpenFile,
    method: &Method,
    request_headers: &HeaderMap,
) -> Result<Response> {
    let modified = http_date(content.modified_at)?;
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::ETAG, value(&content.etag)?);
    headers.insert(header::LAST_MODIFIED, value(&modified)?);
    let field = |name| request_headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if if_none_match_matches(field(header::IF_NONE_MATCH), &content.etag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let range = field(header::RANGE).filter(|_| {
        *method == Method::GET && if_range_matches(field(header::IF_RANGE), &content.etag, &modified)
    });
    let length = content.length;
    let (status, first, count) = match requested_part(range, length) {
        RequestedPart::Whole => (StatusCode::OK, 0, length),
        RequestedPart::Range { first, last } => {
            headers.insert(header::CONTENT_RANGE, value(&format!("bytes {first}-{last}/{length}"))?);
            (StatusCode::PARTIAL_CONTENT, first, last - first + 1)
        }
        RequestedPart::Unsatisfiable => {
            headers.insert(header::CONTENT_RANGE, value(&format!("bytes */{length}"))?);
            let error =
                Error::invalid(format!("the file has {length} bytes")).code(ErrorCode::RangeNotSatisfiable);
            let refused = error_response::with_status(StatusCode::RANGE_NOT_SATISFIABLE, error);
            return Ok((headers, refused).into_response());
        }
    };
    headers.insert(header::CONTENT_TYPE, value(&content.media_type)?);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(count));
    headers.insert(header::CONTENT_DISPOSITION, value(&attachment(last_name(&content.path)))?);
    let mut file = tokio::fs::File::from_std(content.file);
    if first > 0 {
        let sought = file.seek(SeekFrom::Start(first)).await;
        sought.map_err(|error| Error::internal(format!("cannot seek in {}: {error}", content.path)))?;
    }
    let stream = ReaderStream::with_capacity(file.take(count), CHUNK);
    Ok((status, headers, Body::from_stream(stream)).into_response())
}

/// Returns the file name under which a client saves a path.
pub(super) fn last_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root")
}

/// Formats a time as an HTTP date (RFC 9110 section 5.6.7).
pub(super) fn http_date(time: UnixMillis) -> Result<String> {
    let at = jiff::Timestamp::from_millisecond(time.as_i64()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    // HTTP dates have four digits for the year.
    let printed = DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    Ok(printed
        .or_else(|_| DateTimePrinter::new().timestamp_to_rfc9110_string(&jiff::Timestamp::UNIX_EPOCH))
        .map_err(Error::internal)?)
}

fn value(text: &str) -> Result<HeaderValue> {
    Ok(HeaderValue::from_str(text).map_err(Error::internal)?)
}
