//! Screenshots over HTTP, in their three response formats (wire.md 6.1).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use crate::origin::Origin;
use crate::storage::Kind;
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::error::Error;
use hotdesk_guest::{Guest, Image, Sight};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query};
use hotdesk_http::marks::IfNoneMatch;
use hotdesk_wire::screenshot::{
    ScreenshotBase64, ScreenshotJson, ScreenshotMetadata, ScreenshotQuery, ScreenshotUrl,
};

/// The route of screenshots.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(screenshot))
}

/// Takes a screenshot. `url` (default) answers a link to a stored copy, `base64` the image in JSON, `binary` its bytes.
///
/// Every answer names the picture (`frame`), its size, its scale and its screen: in JSON as fields, with the bytes as
/// headers. The bytes have an entity tag: a client that sends it back in `If-None-Match` gets 304 while nothing has
/// changed.
#[utoipa::path(get, path = "/computers/{id}/screenshot", tag = "actions",
    params(("id" = String, Path), ScreenshotQuery,
        ("If-None-Match" = Option<String>, Header, description = "Entity tags of pictures that the client has")),
    responses(
        (status = 200, description = "By `response_format`: a link, base64 in JSON, or the image",
            content((ScreenshotJson = "application/json"), (String = "image/png"), (String = "image/jpeg"),
                (String = "image/webp")),
            headers(("ETag" = String, description = "The frame, quoted (`binary`)"),
                ("X-Hotdesk-Frame" = String, description = "Names the picture (`binary`)"),
                ("X-Hotdesk-Screen" = String, description = "The screen's id (`binary`)"),
                ("X-Hotdesk-Scale" = String, description = "The factor between screen and picture (`binary`)"),
                ("X-Hotdesk-Width" = String, description = "The picture's pixels across (`binary`)"),
                ("X-Hotdesk-Height" = String, description = "The picture's pixels down (`binary`)"))),
        (status = 304, description = "The client has the present picture (`binary`)")))]
async fn screenshot(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Path(id): Path<String>,
    Query(mut query): Query<ScreenshotQuery>,
    held: IfNoneMatch,
) -> Result<Response> {
    let computer = app.find_computer(&caller, &id).await?;
    let wanted = query.response_format.take().unwrap_or_else(|| "url".to_owned());
    if !["url", "base64", "binary"].contains(&wanted.as_str()) {
        return Err(Error::invalid("response_format must be url, base64 or binary").into());
    }
    let guest = app.fleet.guest_to_read(&computer).await?;
    match wanted.as_str() {
        "binary" => Ok(in_bytes(guest.screenshot(&query, &held).await?)),
        form => match taken(&guest, &query).await? {
            image if form == "base64" => Ok(Json(ScreenshotJson::Base64(encoded(&image)?)).into_response()),
            image => stored(&app, &origin, &image).await,
        },
    }
}

/// A picture as bytes, whatever anybody has.
pub(crate) async fn taken(guest: &Guest, query: &ScreenshotQuery) -> Result<Image> {
    match guest.screenshot(query, &IfNoneMatch::default()).await? {
        Sight::Image(image) => Ok(image),
        Sight::Same(_) => Err(Error::internal("a picture that nobody has was left out").into()),
    }
}

/// Encoded here: of a large picture, base64 in JSON would be beyond what an agent's JSON may have.
pub(crate) fn encoded(image: &Image) -> Result<ScreenshotBase64> {
    let Some(marks) = &image.marks else {
        return Err(
            Error::internal("the computer's agent sent a picture without saying what it shows").into()
        );
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

fn in_bytes(sight: Sight) -> Response {
    let (mut response, marks) = match sight {
        Sight::Same(marks) => (StatusCode::NOT_MODIFIED.into_response(), Some(marks)),
        Sight::Image(image) => {
            (([(header::CONTENT_TYPE, image.mime_type)], image.bytes).into_response(), image.marks)
        }
    };
    if let Some(marks) = marks {
        marks.write(response.headers_mut());
    }
    response
}

async fn stored(app: &Shared, origin: &Origin, image: &Image) -> Result<Response> {
    let id = app.storage.put_screenshot(&image.bytes).await?;
    let extension = image.mime_type.trim_start_matches("image/");
    let link = app.storage.link(Kind::Screenshot, id, &format!("{id}.{extension}"));
    let marks = image.marks.as_ref();
    let stored = ScreenshotUrl {
        success: true,
        image: format!("{}{link}", origin.0),
        metadata: ScreenshotMetadata {
            id: id.to_string(),
            timestamp: iso8601(now_ms()),
            size: image.bytes.len() as u64,
            storage_path: format!("{}/{id}", Kind::Screenshot.name()),
            width: marks.map(|marks| marks.width),
            height: marks.map(|marks| marks.height),
            shown: marks.map(|marks| marks.shown()).unwrap_or_default(),
        },
    };
    Ok(Json(ScreenshotJson::Url(stored)).into_response())
}
