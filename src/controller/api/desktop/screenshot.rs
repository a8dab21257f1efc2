//! Screenshots over HTTP, in their three response formats (wire.md 6.1).

use axum::Json;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::base::clock::{iso8601, now_ms};
use crate::controller::Shared;
use crate::controller::origin::Origin;
use crate::controller::storage::Kind;
use crate::domain::access::Caller;
use crate::domain::error::{Error, Result};
use crate::guest::QUICK;
use crate::http::extract::{Path, Query};
use crate::wire::action::{ScreenshotBase64, ScreenshotQuery};
use crate::wire::computer::{ScreenshotMetadata, ScreenshotUrl};

/// The route of screenshots.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(screenshot))
}

/// Takes a screenshot. `url` (default) answers a link to a stored copy, `base64` the image in JSON, `binary` its bytes.
#[utoipa::path(get, path = "/computers/{id}/screenshot", tag = "actions",
    params(("id" = String, Path), ScreenshotQuery),
    responses((status = 200, description = "By `response_format`: a link, base64 in JSON, or the image", content(
        (ScreenshotUrl = "application/json"), (String = "image/png"), (String = "image/jpeg")))))]
async fn screenshot(
    State(app): State<Shared>,
    caller: Caller,
    origin: Origin,
    Path(id): Path<String>,
    Query(mut query): Query<ScreenshotQuery>,
) -> Result<Response> {
    let computer = app.find_computer(&caller, &id).await?;
    let wanted = query.response_format.take().unwrap_or_else(|| "url".to_owned());
    if !["url", "base64", "binary"].contains(&wanted.as_str()) {
        return Err(Error::invalid("response_format must be url, base64 or binary"));
    }
    let guest = app.fleet.guest(&computer).await?;
    if wanted == "base64" {
        query.response_format = Some(wanted);
        let image: ScreenshotBase64 =
            guest.call(Method::GET, "/screenshot", &query, None::<&()>, QUICK).await?;
        return Ok(Json(image).into_response());
    }
    query.response_format = Some("binary".to_owned());
    let image = guest.screenshot(&query).await?;
    if wanted == "binary" {
        return Ok(([(header::CONTENT_TYPE, image.mime_type)], image.bytes).into_response());
    }
    let id = app.storage.put_screenshot(&image.bytes).await?;
    let extension = image.mime_type.trim_start_matches("image/");
    let link = app.storage.link(Kind::Screenshot, id, &format!("{id}.{extension}"));
    Ok(Json(ScreenshotUrl {
        success: true,
        image: format!("{}{link}", origin.0),
        metadata: ScreenshotMetadata {
            id: id.to_string(),
            timestamp: iso8601(now_ms()),
            size: image.bytes.len() as u64,
            storage_path: format!("{}/{id}", Kind::Screenshot.name()),
        },
    })
    .into_response())
}
