//! Screenshots of a computer, with conditional requests.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use bytes::Bytes;

use super::{Guest, QUICK_TIMEOUT, failure, uri, within};
use hotdesk_domain::desktop::image::detect_media_type;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Result;
use hotdesk_http::image_headers::{IfNoneMatch, ImageHeaders};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Largest image of any screen, in bytes. An 8K screenshot of noise is about 100 MB as PNG; real ones stay below 20 MB.
pub(super) const MAX_IMAGE: usize = 128 * 1024 * 1024;

/// An image as the agent sent it.
#[derive(Clone, Debug)]
pub struct Image {
    /// The encoded bytes.
    pub bytes: Bytes,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: &'static str,
    /// Frame, screen and scale; `None` when the agent sends none.
    pub headers: Option<ImageHeaders>,
}

/// Answer to a conditional request for a screenshot.
#[derive(Clone, Debug)]
pub enum ConditionalScreenshot {
    /// The client has the current image already (304).
    NotModified(ImageHeaders),
    /// The current image.
    Image(Image),
}

impl Guest {
    /// Takes a screenshot, unless the client has the current image. The response format in `query` is
    /// ignored. `boot_screen` is the stored size of the boot screen, which bounds its images; the sizes of other screens
    /// are known to the agent alone.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Internal` when the answer is no PNG, JPEG or WebP, or too large for the screen.
    pub async fn screenshot(
        &self,
        query: &ScreenshotQuery,
        boot_screen: Size,
        if_none_match: &IfNoneMatch,
    ) -> Result<ConditionalScreenshot> {
        let most = if query.screen.is_none() { boot_screen.max_image_bytes() } else { MAX_IMAGE };
        let query = ScreenshotQuery { response_format: Some("binary".to_owned()), ..query.clone() };
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri("/screenshot", query)?;
        let field = if_none_match.field();
        if let Some(field) = &field {
            request.headers_mut().insert(header::IF_NONE_MATCH, field.clone());
        }
        let good = |status: &StatusCode| {
            status.is_success() || (field.is_some() && *status == StatusCode::NOT_MODIFIED)
        };
        let exchange = async {
            let response = self.exchange(request, good).await?;
            let headers = ImageHeaders::read(response.headers());
            if response.status() == StatusCode::NOT_MODIFIED {
                let same = headers.filter(|headers| if_none_match.0.contains(&headers.frame));
                return same.map(ConditionalScreenshot::NotModified).ok_or_else(|| {
                    failure::invalid_answer(&"status 304 for a frame that the controller did not name")
                });
            }
            let bytes = self.answers.collect(response.into_body(), most).await?;
            // A hostile guest may send any media type, so the type is detected from the bytes.
            let mime_type =
                detect_media_type(&bytes).ok_or_else(|| failure::invalid_answer(&"not an image"))?;
            Ok(ConditionalScreenshot::Image(Image { bytes, mime_type, headers }))
        };
        within(QUICK_TIMEOUT, exchange).await
    }
}
