//! Screenshots over HTTP in three response formats (docs/api/actions.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::data_dir::blobs::BlobKind;
use crate::web::origin::Origin;
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Error;
use hotdesk_guest::{ConditionalScreenshot, Guest, Image};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query};
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_wire::desktop::screenshot::{
    ScreenshotBase64, ScreenshotJson, ScreenshotMetadata, ScreenshotQuery, ScreenshotUrl,
};

/// Returns the route of screenshots.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(screenshot))
}

/// Takes a screenshot.
///
/// The format `url` (default) returns a link to a stored copy, `base64` the image in JSON, and `binary` its
/// bytes.
///
/// Every response has the image's name (`frame`), its size, its scale and its screen: as fields in JSON, as
/// headers with the bytes. The bytes have an entity tag: a client that sends it in `If-None-Match` gets 304
/// while nothing has changed.
#[utoipa::path(get, path = "/computers/{id}/screenshot", tag = "actions",
    params(("id" = String, Path), ScreenshotQuery,
        ("If-None-Match" = Option<String>, Header, description = "Entity tags of images that the client has")),
    responses(
        (status = 200, description = "By `response_format`: a link, base64 in JSON, or the image",
            content((ScreenshotJson = "application/json"), (String = "image/png"), (String = "image/jpeg"),
                (String = "image/webp")),
            headers(("ETag" = String, description = "The frame, quoted (`binary`)"),
                ("X-Hotdesk-Frame" = String, description = "The name of the image (`binary`)"),
                ("X-Hotdesk-Screen" = String, description = "The screen's id (`binary`)"),
                ("X-Hotdesk-Scale" = String, description = "The scale factor from screen to image (`binary`)"),
                ("X-Hotdesk-Width" = String, description = "The image's width in pixels (`binary`)"),
                ("X-Hotdesk-Height" = String, description = "The image's height in pixels (`binary`)"))),
        (status = 304, description = "The client has the current image (`binary`)")))]
async fn screenshot(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
    Query(mut query): Query<ScreenshotQuery>,
    held: IfNoneMatch,
) -> Result<Response> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let wanted = query.response_format.take().unwrap_or_else(|| "url".to_owned());
    if !["url", "base64", "binary"].contains(&wanted.as_str()) {
        return Err(Error::invalid("response_format must be url, base64 or binary").into());
    }
    let guest = app.fleet.guest_to_read(&computer).await?;
    let boot_screen = computer.hardware.resolution.size;
    match wanted.as_str() {
        "binary" => Ok(binary_response(guest.screenshot(&query, boot_screen, &held).await?)),
        form => match take(&guest, &query, boot_screen).await? {
            image if form == "base64" => {
                Ok(Json(ScreenshotJson::Base64(encode_base64(&image)?)).into_response())
            }
            image => url_response(&app, computer.owner, &origin, &image).await,
        },
    }
}

/// Takes a screenshot unconditionally. `boot_screen` is the stored size of the boot screen.
pub(crate) async fn take(guest: &Guest, query: &ScreenshotQuery, boot_screen: Size) -> Result<Image> {
    match guest.screenshot(query, boot_screen, &IfNoneMatch::default()).await? {
        ConditionalScreenshot::Image(image) => Ok(image),
        ConditionalScreenshot::NotModified(_) => {
            Err(Error::internal("the agent returned no image for an unconditional request").into())
        }
    }
}

/// Encodes an image as base64. This is done here, because large images would exceed the limit of an agent's
/// JSON.
pub(crate) fn encode_base64(image: &Image) -> Result<ScreenshotBase64> {
    let Some(marks) = &image.headers else {
        return Err(Error::internal("the computer's agent sent an image without its metadata").into());
    };
    Ok(ScreenshotBase64 {
        success: true,
        image: STANDARD.encode(&image.bytes),
        mime_type: image.mime_type.to_owned(),
        width: marks.width,
        height: marks.height,
        shown: marks.shown(),
    })
}

fn binary_response(sight: ConditionalScreenshot) -> Response {
    let (mut response, marks) = match sight {
        ConditionalScreenshot::NotModified(marks) => (StatusCode::NOT_MODIFIED.into_response(), Some(marks)),
        ConditionalScreenshot::Image(image) => {
            (([(header::CONTENT_TYPE, image.mime_type)], image.bytes).into_response(), image.headers)
        }
    };
    if let Some(marks) = marks {
        marks.write(response.headers_mut());
    }
    response
}

async fn url_response(app: &AppState, owner: AccountId, origin: &Origin, image: &Image) -> Result<Response> {
    let id = app.blobs.put_screenshot(owner, &image.bytes).await?;
    let extension = image.mime_type.trim_start_matches("image/");
    let link = app.blobs.link(BlobKind::Screenshot, id, &format!("{id}.{extension}"));
    let marks = image.headers.as_ref();
    let stored = ScreenshotUrl {
        success: true,
        image: format!("{}{link}", origin.0),
        metadata: ScreenshotMetadata {
            id: id.to_string(),
            timestamp: clock::now().iso8601(),
            size: image.bytes.len() as u64,
            storage_path: format!("{}/{id}", BlobKind::Screenshot.name()),
            width: marks.map(|marks| marks.width),
            height: marks.map(|marks| marks.height),
            shown: marks.map(|marks| marks.shown()).unwrap_or_default(),
        },
    };
    Ok(Json(ScreenshotJson::Url(stored)).into_response())
}
