//! Screenshots, the same for the controller and the agent (docs/api/actions.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::field;

/// Header with the frame id, for `frame` in actions and for `If-None-Match`; in every answer with an image.
pub const FRAME_HEADER: &str = "x-hotdesk-frame";
/// Header with the scale factor of the image.
pub const SCALE_HEADER: &str = "x-hotdesk-scale";
/// Header with the id of the screen.
pub const SCREEN_HEADER: &str = "x-hotdesk-screen";
/// Header with the width of the image in pixels.
pub const WIDTH_HEADER: &str = "x-hotdesk-width";
/// Header with the height of the image in pixels.
pub const HEIGHT_HEADER: &str = "x-hotdesk-height";

/// The query of `GET screenshot`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub struct ScreenshotQuery {
    /// `url` (default), `base64` or `binary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(url|base64|binary)$")]
    #[schema(pattern = "^(url|base64|binary)$")]
    pub response_format: Option<String>,
    /// `png` (default), `jpeg` or `webp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(png|jpeg|webp)$")]
    #[schema(pattern = "^(png|jpeg|webp)$")]
    pub format: Option<String>,
    /// Quality of JPEG and WebP, 1 to 100. When absent, JPEG uses 80 and WebP is lossless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    #[schema(minimum = 1, maximum = 100)]
    pub quality: Option<u8>,
    /// Scale factor for width and height, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(exclusive_minimum = 0, maximum = 1)]
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub scale: Option<f64>,
    /// Only this part of the screen: `x,y,width,height` in screen pixels, completely on the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-9]{1,4},[0-9]{1,4},[1-9][0-9]{0,3},[1-9][0-9]{0,3}$", example = "0,0,64,64")]
    #[schema(pattern = "^[0-9]{1,4},[0-9]{1,4},[1-9][0-9]{0,3},[1-9][0-9]{0,3}$", example = "0,0,64,64")]
    pub region: Option<String>,
    /// Whether the pointer is drawn: `on` (default) or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(on|off)$")]
    #[schema(pattern = "^(on|off)$")]
    pub cursor: Option<String>,
    /// Largest number of pixels (width times height): the image is scaled down further than `scale` until it
    /// fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    #[schema(minimum = 1)]
    pub max_pixels: Option<u32>,
    /// Largest size of the image in bytes: the quality is lowered first (JPEG, WebP), then the image is
    /// scaled down. The answer is 400 with the code `budget_too_small` when the smallest useful image is
    /// still too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    #[schema(minimum = 1)]
    pub max_bytes: Option<u32>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// Frame, scale and screen of an image, in JSON answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Shown)]
pub struct ScreenshotFrame {
    /// Id of the image: an action with this `frame` uses pixels of this image as coordinates. Only older
    /// agents omit it and the two fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Scale factor of the image.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Id of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// A screenshot as base64 (`response_format=base64`, and the agent's default).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotBase64 {
    /// Always true.
    pub success: bool,
    /// Raw base64, without a `data:` prefix.
    pub image: String,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: String,
    /// Width after scaling, in pixels.
    pub width: u32,
    /// Height after scaling, in pixels.
    pub height: u32,
    /// Frame, scale and screen.
    #[serde(flatten)]
    pub shown: ScreenshotFrame,
}

/// `GET screenshot` with `response_format=url`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotUrl {
    /// Always true.
    pub success: bool,
    /// URL of the stored copy; it needs no key and is valid for an hour.
    pub image: String,
    /// Metadata of the stored copy.
    pub metadata: ScreenshotMetadata,
}

/// JSON answer to `GET screenshot`, by `response_format`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ScreenshotJson {
    /// `url`.
    Url(ScreenshotUrl),
    /// `base64`.
    Base64(ScreenshotBase64),
}

/// Metadata of a stored screenshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotMetadata {
    /// Id of the screenshot.
    pub id: String,
    /// Time of the screenshot, ISO 8601.
    pub timestamp: String,
    /// Size in bytes.
    pub size: u64,
    /// Path below `storage/`.
    pub storage_path: String,
    /// Width after scaling, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height after scaling, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Frame, scale and screen.
    #[serde(flatten)]
    pub shown: ScreenshotFrame,
}
