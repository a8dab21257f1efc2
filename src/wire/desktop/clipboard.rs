//! Clipboard of a screen.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Longest text on a clipboard, in bytes of UTF-8 (T17, docs/security.md).
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// Largest image on a clipboard, in bytes: a screenshot of 1920x1080 of noise as PNG is 6 MB.
pub const MAX_IMAGE_BYTES: usize = 8 * 1024 * 1024;
/// Largest body of `PUT clipboard`, in bytes: the largest image in base64 and the other fields. This is more
/// than the longest text with six bytes for each escaped byte.
pub const MAX_BODY_BYTES: usize = MAX_IMAGE_BYTES / 3 * 4 + 64 * 1024;

/// The query of `clipboard`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ClipboardQuery {
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
    /// `clipboard` (default), or `primary`: the last selection with the pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(clipboard|primary)$")]
    pub selection: Option<String>,
}

/// `GET clipboard`: text, else an image, else nothing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Clipboard {
    /// `text/plain;charset=utf-8` or `image/png`; null when the clipboard has neither.
    pub mime_type: Option<String>,
    /// Text of at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Image of at most 8 MiB, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Names of the formats that the owner of the clipboard offers; absent when the clipboard is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// `PUT clipboard`. Exactly one of `text` and `image` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"text": "hello"}))]
#[serde(deny_unknown_fields)]
pub struct SetClipboard {
    /// Text of at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Image of at most 8 MiB, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `image/png` (default) with `image`; `text/plain` with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}
