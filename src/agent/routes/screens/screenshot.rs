//! Route `GET /screenshot` (docs/api/screens.md).

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::display::screenshot::response;
use crate::display::{ConditionalScreenshot, Displays, ScreenshotOptions};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_http::headers::image_headers::{IfNoneMatch, ImageHeaders};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// `GET /screenshot`.
pub(super) async fn screenshot(
    State(displays): State<Displays>,
    Query(query): Query<ScreenshotQuery>,
    IfNoneMatch(frame): IfNoneMatch,
) -> Result<Response> {
    let options = ScreenshotOptions::parse(&query)?;
    // The agent stores nothing, so it has no URL: `url` is answered like `base64`.
    let binary = match query.response_format.as_deref() {
        Some("binary") => true,
        None | Some("url" | "base64") => false,
        Some(_) => return Err(Error::invalid("response_format must be url, base64 or binary").into()),
    };
    let screen = displays.screen(query.screen.as_deref())?;
    if !binary {
        let picture = screen.screenshot(options).await?;
        return Ok(axum::Json(response::to_json(&screen.id, &picture)).into_response());
    }
    let (mut response, marks) = match screen.screenshot_if_changed(options, frame).await? {
        ConditionalScreenshot::NotModified(frame, record) => {
            let (scale, width, height) = (record.scale(), record.width, record.height);
            let marks = ImageHeaders { frame, screen: screen.id.clone(), scale, width, height };
            (StatusCode::NOT_MODIFIED.into_response(), marks)
        }
        ConditionalScreenshot::Picture(picture) => {
            let marks = response::marks(&screen.id, &picture);
            (([(header::CONTENT_TYPE, picture.mime_type)], picture.bytes).into_response(), marks)
        }
    };
    marks.write(response.headers_mut());
    Ok(response)
}
