//! Resumable uploads to a computer: the agent's tus 1.0.0, passed through.

use crate::auth::Authenticated;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::{head, options};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::Shared;
use crate::origin::Origin;
use crate::relay::transfer::{Crossing, transfer};
use hotdesk_domain::error::Error;
use hotdesk_guest::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::error::ErrorBody;

/// `HEAD` and `OPTIONS`, and `POST` with `X-HTTP-Method-Override`, are routed but are no operations of the document: tus
/// describes them.
pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .route("/computers/{id}/files/uploads", options(abilities))
        .routes(routes!(append, remove))
        .route("/computers/{id}/files/uploads/{upload_id}", head(pass).post(pass).options(pass))
}

const TUS: Crossing = Crossing {
    asked: &[
        "content-length",
        "content-type",
        "tus-resumable",
        "upload-length",
        "upload-metadata",
        "upload-offset",
        "x-http-method-override",
    ],
    answered: &[
        "cache-control",
        "location",
        "tus-extension",
        "tus-max-size",
        "tus-resumable",
        "tus-version",
        "upload-expires",
        "upload-length",
        "upload-metadata",
        "upload-offset",
    ],
    sized: false,
};

/// Begins a resumable upload (tus 1.0.0). `Upload-Length` and `Upload-Metadata` are needed: `path`, or `filename` for the
/// desktop; `overwrite`, `parents`, `mode`. `OPTIONS` tells what the server can.
#[utoipa::path(post, path = "/computers/{id}/files/uploads", tag = "computer files", params(("id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0"),
        ("Upload-Length" = u64, Header, description = "Bytes in all"),
        ("Upload-Metadata" = String, Header, description = "Pairs of a key and base64, separated by commas")),
    responses(
        (status = 201, description = "`Location` is where its bytes go; `Upload-Expires` says until when"),
        (status = 412, description = "Another version of tus is needed", body = ErrorBody)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    let mut response = transfer(&app, &caller, &id, "/files/uploads", TUS, request).await?;
    let Some(location) = response.headers_mut().remove(header::LOCATION) else { return Ok(response) };
    // Only an id is taken from what the agent says.
    let upload = location.to_str().ok().and_then(|path| path.rsplit('/').next()?.parse::<Uuid>().ok());
    let upload = upload.ok_or_else(|| Error::internal("an agent named an upload by no id"))?;
    let ours = format!("{}/api/computers/{}/files/uploads/{upload}", origin.0, percent_encode(&id));
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&ours).map_err(Error::internal)?);
    Ok(response)
}

/// Adds bytes to an upload at `Upload-Offset`; with the last ones the file gets its name. `HEAD` tells how far it is.
#[utoipa::path(patch, path = "/computers/{id}/files/uploads/{upload_id}", tag = "computer files",
    params(("id" = String, Path), ("upload_id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0"),
        ("Upload-Offset" = u64, Header, description = "Bytes that are there")),
    request_body(content = String, content_type = "application/offset+octet-stream"),
    responses(
        (status = 204, description = "`Upload-Offset` is how many bytes are there now"),
        (status = 412, description = "Another version of tus is needed", body = ErrorBody),
        (status = 415, description = "The media type must be application/offset+octet-stream", body = ErrorBody)))]
async fn append(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    pass(state, caller, path, request).await
}

/// Gives an upload up; a finished file stays.
#[utoipa::path(delete, path = "/computers/{id}/files/uploads/{upload_id}", tag = "computer files",
    params(("id" = String, Path), ("upload_id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0")),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = 412, description = "Another version of tus is needed", body = ErrorBody)))]
async fn remove(
    state: State<Shared>,
    caller: Authenticated,
    path: Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    pass(state, caller, path, request).await
}

async fn abilities(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/uploads", TUS, request).await
}

async fn pass(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path((id, upload)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    let path = format!("/files/uploads/{}", percent_encode(&upload));
    let mut response = transfer(&app, &caller, &id, &path, TUS, request).await?;
    response.headers_mut().remove(header::LOCATION);
    Ok(response)
}
