//! What is a screenshot on the wire? (wire.md 6.1) The same for the controller and the agent.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Names the picture in actions (`frame`) and for `If-None-Match`; in every answer with an image.
pub const FRAME_HEADER: &str = "x-hotdesk-frame";
/// The factor between screen and picture.
pub const SCALE_HEADER: &str = "x-hotdesk-scale";
/// The screen's id.
pub const SCREEN_HEADER: &str = "x-hotdesk-screen";
/// The picture's pixels across.
pub const WIDTH_HEADER: &str = "x-hotdesk-width";
/// The picture's pixels down.
pub const HEIGHT_HEADER: &str = "x-hotdesk-height";

/// `GET screenshot`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub struct ScreenshotQuery {
    /// `url` (default), `base64` or `binary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(url|base64|binary)$")]
    pub response_format: Option<String>,
    /// `png` (default), `jpeg` or `webp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(png|jpeg|webp)$")]
    pub format: Option<String>,
    /// Quality of JPEG and WebP, 1 to 100. JPEG has 80 when absent; WebP is then lossless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub quality: Option<u8>,
    /// Factor on both sides, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(exclusive_minimum = 0, maximum = 1)]
    pub scale: Option<f64>,
    /// Only this part of the screen: `x,y,width,height` in screen pixels, wholly on the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-9]{1,4},[0-9]{1,4},[1-9][0-9]{0,3},[1-9][0-9]{0,3}$", example = "0,0,64,64")]
    pub region: Option<String>,
    /// Whether the pointer is drawn: `on` (default) or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(on|off)$")]
    pub cursor: Option<String>,
    /// Most pixels (width times height): the picture is made smaller until it fits, beyond `scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub max_pixels: Option<u64>,
    /// Most bytes of the image: quality is lowered first (JPEG, WebP), then the picture is made smaller. 400 with the code
    /// `budget_too_small` when the smallest sensible picture does not fit either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub max_bytes: Option<u64>,
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// What a picture shows, in its JSON forms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shown {
    /// Names the picture: an action that quotes it as `frame` has its coordinates taken as this picture's pixels. Absent
    /// only from an older agent, as are the two below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// The factor between screen and picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// The screen's id.
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
    /// Pixels across, after scaling.
    pub width: u32,
    /// Pixels down, after scaling.
    pub height: u32,
    /// What it shows.
    #[serde(flatten)]
    pub shown: Shown,
}

/// `GET screenshot` with `response_format=url`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotUrl {
    /// Always true.
    pub success: bool,
    /// Where the stored copy is, for an hour, without a key.
    pub image: String,
    /// About the stored copy.
    pub metadata: ScreenshotMetadata,
}

/// `GET screenshot`'s JSON: what `response_format` asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ScreenshotJson {
    /// `url`.
    Url(ScreenshotUrl),
    /// `base64`.
    Base64(ScreenshotBase64),
}

/// About a stored screenshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotMetadata {
    /// Its id.
    pub id: String,
    /// When it was taken, ISO 8601.
    pub timestamp: String,
    /// Bytes.
    pub size: u64,
    /// Its path below `storage/`.
    pub storage_path: String,
    /// Pixels across, after scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Pixels down, after scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// What it shows.
    #[serde(flatten)]
    pub shown: Shown,
}
