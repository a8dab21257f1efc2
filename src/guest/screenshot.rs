//! Screenshots of a computer, with conditional requests.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use bytes::Bytes;

use super::{Guest, QUICK_TIMEOUT, failure, uri, within};
use hotdesk_domain::desktop::image::check_image;
use hotdesk_domain::desktop::resolution::{MAX_AREA, Size, max_image_bytes};
use hotdesk_domain::error::Result;
use hotdesk_http::headers::image_headers::{IfNoneMatch, ImageHeaders};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Largest image of any screen, in bytes. An 8K screenshot of noise is about 100 MB as PNG; real ones stay below 20 MB.
pub(super) const MAX_IMAGE: usize = 128 * 1024 * 1024;

/// The largest image that an agent may send for a query, in bytes: by what the query asks for, and by the screen. Whoever may
/// take screenshots of another screen than the boot screen may have made it as large as a screen can be; only the agent knows.
fn max_bytes(query: &ScreenshotQuery, boot_screen: Size) -> usize {
    let screen = if query.screen.is_none() { boot_screen.pixels() } else { MAX_AREA };
    let pixels = max_pixels(query).min(screen);
    let asked = query.max_bytes.map_or(MAX_IMAGE, |bytes| bytes as usize);
    max_image_bytes(pixels).min(asked).min(MAX_IMAGE)
}

/// The most pixels that the header of an image may claim for a query: those that the query asks for, and never more than the
/// largest screen has. The stored size of the boot screen is no bound, because programs of the computer may have changed it.
fn max_pixels(query: &ScreenshotQuery) -> u32 {
    let region = query.region.as_deref().and_then(area);
    [region, query.max_pixels].into_iter().flatten().fold(MAX_AREA, u32::min)
}

/// The pixels of a region `x,y,width,height`; `None` for any other text, which the agent refuses.
fn area(region: &str) -> Option<u32> {
    let mut numbers = region.split(',').skip(2).map(|number| number.parse::<u32>().ok());
    numbers.next()??.checked_mul(numbers.next()??)
}

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
    /// ignored. `boot_screen` is the stored size of the boot screen.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Internal` when the answer is no PNG, JPEG or WebP, or has more bytes or pixels than the
    /// query asks for.
    pub async fn screenshot(
        &self,
        query: &ScreenshotQuery,
        boot_screen: Size,
        if_none_match: &IfNoneMatch,
    ) -> Result<ConditionalScreenshot> {
        let (most, most_pixels) = (max_bytes(query, boot_screen), max_pixels(query));
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
            // A hostile guest may send any media type and any size, so both are read from the bytes.
            let mime_type =
                check_image(&bytes, most_pixels).map_err(|fault| failure::invalid_answer(&fault))?;
            Ok(ConditionalScreenshot::Image(Image { bytes, mime_type, headers }))
        };
        within(QUICK_TIMEOUT, exchange).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_bounded_by_its_screen_and_by_what_the_query_asks_for() {
        let boot = Size::new(1280, 720).unwrap();
        let query = |screen: Option<&str>, region: Option<&str>, max_pixels, limit| ScreenshotQuery {
            screen: screen.map(str::to_owned),
            region: region.map(str::to_owned),
            max_pixels,
            max_bytes: limit,
            ..ScreenshotQuery::default()
        };
        for (asked, expected) in [
            (query(None, None, None, None), max_image_bytes(1280 * 720)),
            (query(Some("screen-100"), None, None, None), max_image_bytes(7680 * 4320)),
            (query(Some("screen-100"), Some("5,5,64,32"), None, None), max_image_bytes(64 * 32)),
            (query(Some("screen-100"), None, Some(1000), None), max_image_bytes(1000)),
            (query(Some("screen-100"), Some("0,0,9999,9999"), Some(1000), Some(70_000)), 70_000),
            (query(None, Some("0,0,9999,9999"), Some(u32::MAX), Some(u32::MAX)), max_image_bytes(1280 * 720)),
            (query(None, Some("x"), None, None), max_image_bytes(1280 * 720)),
        ] {
            assert_eq!(max_bytes(&asked, boot), expected, "{asked:?}");
        }
        for (asked, expected) in [
            (query(None, None, None, None), MAX_AREA),
            (query(None, Some("5,5,64,32"), Some(57_600), None), 64 * 32),
            (query(Some("screen-100"), Some("0,0,9999,9999"), Some(57_600), None), 57_600),
            (query(None, None, Some(u32::MAX), None), MAX_AREA),
        ] {
            assert_eq!(max_pixels(&asked), expected, "{asked:?}");
        }
    }
}
