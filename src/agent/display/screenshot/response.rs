//! What does a picture say of itself on the wire?

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::cache::Picture;
use hotdesk_http::marks::Marks;
use hotdesk_wire::screenshot::ScreenshotBase64;

/// What a picture of a screen shows.
pub fn marks(screen: &str, picture: &Picture) -> Marks {
    let Picture { width, height, scale, .. } = *picture;
    Marks { frame: picture.frame.clone(), screen: screen.to_owned(), scale, width, height }
}

/// A picture of a screen in JSON.
pub fn in_json(screen: &str, picture: &Picture) -> ScreenshotBase64 {
    ScreenshotBase64 {
        success: true,
        image: STANDARD.encode(&picture.bytes),
        mime_type: picture.mime_type.to_owned(),
        width: picture.width,
        height: picture.height,
        shown: marks(screen, picture).shown(),
    }
}
