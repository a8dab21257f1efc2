//! API representations of a screenshot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::cache::Picture;
use hotdesk_http::headers::image_headers::ImageHeaders;
use hotdesk_wire::desktop::screenshot::ScreenshotBase64;

/// Metadata of a screenshot for response headers.
pub fn marks(screen: &str, picture: &Picture) -> ImageHeaders {
    let Picture { width, height, scale, .. } = *picture;
    ImageHeaders { frame: picture.frame.clone(), screen: screen.to_owned(), scale, width, height }
}

/// A screenshot as JSON with base64 data.
pub fn to_json(screen: &str, picture: &Picture) -> ScreenshotBase64 {
    ScreenshotBase64 {
        success: true,
        image: STANDARD.encode(&picture.bytes),
        mime_type: picture.mime_type.to_owned(),
        width: picture.width,
        height: picture.height,
        shown: marks(screen, picture).shown(),
    }
}
