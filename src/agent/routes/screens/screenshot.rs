//! How is a screen looked at over HTTP? (wire.md 6.1)

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::display::{Displays, Form, Sight, picture};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_http::marks::{IfNoneMatch, Marks};
use hotdesk_wire::screenshot::ScreenshotQuery;

/// `GET /screenshot`.
pub(super) async fn screenshot(
    State(displays): State<Displays>,
    Query(query): Query<ScreenshotQuery>,
    IfNoneMatch(held): IfNoneMatch,
) -> Result<Response> {
    let form = Form::parse(&query)?;
    // An agent stores nothing, so it has no URL to give: `url` is answered like `base64`.
    let binary = match query.response_format.as_deref() {
        Some("binary") => true,
        None | Some("url" | "base64") => false,
        Some(_) => return Err(Error::invalid("response_format must be url, base64 or binary").into()),
    };
    let screen = displays.screen(query.screen.as_deref())?;
    if !binary {
        let picture = screen.screenshot(form).await?;
        return Ok(axum::Json(picture::in_json(&screen.id, &picture)).into_response());
    }
    let (mut response, marks) = match screen.screenshot_unless(form, held).await? {
        Sight::Same(frame, taken) => {
            let (scale, width, height) = (taken.scale(), taken.width, taken.height);
            let marks = Marks { frame, screen: screen.id.clone(), scale, width, height };
            (StatusCode::NOT_MODIFIED.into_response(), marks)
        }
        Sight::Picture(picture) => {
            let marks = picture::marks(&screen.id, &picture);
            (([(header::CONTENT_TYPE, picture.mime_type)], picture.bytes).into_response(), marks)
        }
    };
    marks.write(response.headers_mut());
    Ok(response)
}
