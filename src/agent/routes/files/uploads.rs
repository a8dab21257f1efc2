//! Routes `/files/uploads`: resumable uploads of tus 1.0.0 (core, creation, expiration, termination).

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{head, post};
use uuid::Uuid;

use super::content::http_date;
use crate::files::resumable::{MAX_BYTES, UploadState, header as fields};
use crate::state::Agent;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::{self, Result};
use hotdesk_http::extract::Path;

/// Protocol version.
const VERSION: &str = "1.0.0";
const EXTENSIONS: &str = "creation,expiration,termination";
/// Media type of appended bytes.
const OFFSET_TYPE: &str = "application/offset+octet-stream";

const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
/// For clients behind proxies that pass only GET and POST.
const OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");

pub(super) fn router() -> Router<Agent> {
    Router::new()
        .route("/files/uploads", post(create).options(capabilities))
        .route(
            "/files/uploads/{upload}",
            head(progress).patch(append).delete(remove).post(override_method).options(capabilities),
        )
        .route_layer(middleware::from_fn(version))
}

/// Checks the protocol version of every request except `OPTIONS`, and adds ours to every answer.
async fn version(request: Request, next: Next) -> Response {
    let spoken = request.headers().get(RESUMABLE).is_some_and(|version| version == VERSION);
    let mut response = if spoken || request.method() == Method::OPTIONS {
        next.run(request).await
    } else {
        let error =
            Error::invalid(format!("Tus-Resumable: {VERSION} is required")).code(ErrorCode::TusVersion);
        error_response::with_status(StatusCode::PRECONDITION_FAILED, error)
    };
    response.headers_mut().insert(RESUMABLE, HeaderValue::from_static(VERSION));
    response.headers_mut().insert(TUS_VERSION, HeaderValue::from_static(VERSION));
    response
}

async fn capabilities() -> impl IntoResponse {
    let size = HeaderValue::from(MAX_BYTES);
    (StatusCode::NO_CONTENT, [(TUS_EXTENSION, HeaderValue::from_static(EXTENSIONS)), (TUS_MAX_SIZE, size)])
}

async fn create(State(agent): State<Agent>, headers_in: HeaderMap) -> Result<Response> {
    let length = fields::bytes("Upload-Length", text(&headers_in, &LENGTH))?;
    let metadata = text(&headers_in, &METADATA).unwrap_or_default().to_owned();
    let (id, upload) = agent.files.uploads.create(length, metadata).await?;
    let location = HeaderValue::from_str(&format!("/files/uploads/{id}")).map_err(Error::internal)?;
    let mut headers = progress_headers(&upload)?;
    headers.insert(header::LOCATION, location);
    Ok((StatusCode::CREATED, headers).into_response())
}

async fn progress(State(agent): State<Agent>, Path(upload): Path<String>) -> Result<Response> {
    let upload = agent.files.uploads.state(parse_id(&upload)?).await?;
    let mut headers = progress_headers(&upload)?;
    headers.insert(LENGTH, HeaderValue::from(upload.length));
    headers.insert(METADATA, HeaderValue::from_str(&upload.metadata).map_err(Error::internal)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok((StatusCode::OK, headers).into_response())
}

async fn append(
    State(agent): State<Agent>,
    Path(upload): Path<String>,
    headers_in: HeaderMap,
    body: Body,
) -> Result<Response> {
    let id = parse_id(&upload)?;
    if text(&headers_in, &header::CONTENT_TYPE) != Some(OFFSET_TYPE) {
        return Err(Error::unsupported_media(format!("Content-Type must be {OFFSET_TYPE}")).into());
    }
    let offset = fields::bytes("Upload-Offset", text(&headers_in, &OFFSET))?;
    let declared = text(&headers_in, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let slot = agent.files.slot()?;
    let upload = agent.files.uploads.append(id, offset, declared, slot, body).await?;
    Ok((StatusCode::NO_CONTENT, progress_headers(&upload)?).into_response())
}

async fn remove(State(agent): State<Agent>, Path(upload): Path<String>) -> Result<StatusCode> {
    agent.files.uploads.remove(parse_id(&upload)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn override_method(
    state: State<Agent>,
    path: Path<String>,
    headers_in: HeaderMap,
    body: Body,
) -> Result<Response> {
    match text(&headers_in, &OVERRIDE) {
        Some("PATCH") => append(state, path, headers_in, body).await,
        Some("HEAD") => progress(state, path).await,
        Some("DELETE") => remove(state, path).await.map(IntoResponse::into_response),
        _ => Err(Error::invalid("X-HTTP-Method-Override must be PATCH, HEAD or DELETE").into()),
    }
}

fn progress_headers(upload: &UploadState) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(OFFSET, HeaderValue::from(upload.offset));
    let expires = HeaderValue::from_str(&http_date(upload.expires_at)?).map_err(Error::internal)?;
    headers.insert(EXPIRES, expires);
    Ok(headers)
}

fn parse_id(upload: &str) -> Result<Uuid> {
    Ok(Uuid::parse_str(upload).map_err(|_| Error::not_found("No such upload"))?)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
