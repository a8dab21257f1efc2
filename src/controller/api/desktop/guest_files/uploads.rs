//! Resumable uploads to a computer: the agent's tus 1.0.0, forwarded.

use crate::identity::auth::AuthenticatedCaller;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::{head, options};
use uuid::Uuid;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::relay::transfer::{TransferRules, transfer};
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_guest::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::error::ErrorBody;

/// Returns the routes of uploads. `HEAD`, `OPTIONS`, and `POST` with `X-HTTP-Method-Override` are not in the
/// OpenAPI document, because tus describes them.
pub(super) fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(create))
        .route("/computers/{id}/files/uploads", options(options_of_server))
        .routes(routes!(append, remove))
        .route("/computers/{id}/files/uploads/{upload_id}", head(pass).post(pass).options(pass))
}

const TUS: TransferRules = TransferRules {
    request_fields: &[
        "content-length",
        "content-type",
        "tus-resumable",
        "upload-length",
        "upload-metadata",
        "upload-offset",
        "x-http-method-override",
    ],
    response_fields: &[
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
    requires_length: false,
};

/// Starts a resumable upload (tus 1.0.0).
///
/// `Upload-Length` and `Upload-Metadata` are required: `path`, or `filename` for the desktop; `overwrite`,
/// `parents`, `mode`. `OPTIONS` returns the server's capabilities.
#[utoipa::path(post, path = "/computers/{id}/files/uploads", tag = "computer files",
    params(("id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0"),
        ("Upload-Length" = u64, Header, description = "Total number of bytes"),
        ("Upload-Metadata" = String, Header, description = "Pairs of a key and base64, separated by commas")),
    responses(
        (status = 201, description = "The upload; send its bytes to `Location` before `Upload-Expires`",
            headers(("Location" = String, description = "Address of the upload"),
                ("Upload-Expires" = String, description = "When it is removed, an HTTP date"))),
        (status = 412, description = "The version of tus is not supported", body = ErrorBody)))]
async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    let mut response = transfer(&app, &caller, &id, "/files/uploads", TUS, request).await?;
    let Some(location) = response.headers_mut().remove(header::LOCATION) else { return Ok(response) };
    // Only the id is used of the agent's value.
    let upload = location.to_str().ok().and_then(|path| path.rsplit('/').next()?.parse::<Uuid>().ok());
    let upload = upload.ok_or_else(|| Error::internal("the agent sent an upload without a valid id"))?;
    let ours = format!("{}/api/computers/{}/files/uploads/{upload}", origin.0, percent_encode(&id));
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&ours).map_err(Error::internal)?);
    Ok(response)
}

/// Appends bytes to an upload at `Upload-Offset`.
///
/// The file appears with its last bytes. `HEAD` returns the current offset.
#[utoipa::path(patch, path = "/computers/{id}/files/uploads/{upload_id}", tag = "computer files",
    params(("id" = String, Path), ("upload_id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0"),
        ("Upload-Offset" = u64, Header, description = "Bytes that were received")),
    request_body(content = String, content_type = "application/offset+octet-stream"),
    responses(
        (status = 204, description = "`Upload-Offset` is the number of received bytes"),
        (status = 412, description = "The version of tus is not supported", body = ErrorBody),
        (status = 415, description = "The media type must be application/offset+octet-stream",
        body = ErrorBody)))]
async fn append(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    pass(state, caller, path, request).await
}

/// Cancels an upload. A completed file stays.
#[utoipa::path(delete, path = "/computers/{id}/files/uploads/{upload_id}", tag = "computer files",
    params(("id" = String, Path), ("upload_id" = String, Path),
        ("Tus-Resumable" = String, Header, description = "1.0.0")),
    responses(
        (status = 204, description = "The upload was cancelled"),
        (status = 412, description = "The version of tus is not supported", body = ErrorBody)))]
async fn remove(
    state: State<AppState>,
    caller: AuthenticatedCaller,
    path: Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    pass(state, caller, path, request).await
}

async fn options_of_server(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    transfer(&app, &caller, &id, "/files/uploads", TUS, request).await
}

async fn pass(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, upload)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    let path = format!("/files/uploads/{}", percent_encode(&upload));
    let mut response = transfer(&app, &caller, &id, &path, TUS, request).await?;
    response.headers_mut().remove(header::LOCATION);
    Ok(response)
}
