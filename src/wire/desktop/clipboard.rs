//! What is said about the clipboard of a screen?

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Longest text on a clipboard, in bytes of UTF-8 (threats.md T17).
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// Largest image on a clipboard, in bytes: a screenshot of 1920x1080 of noise as PNG is 6 MB.
pub const MAX_IMAGE_BYTES: usize = 8 * 1024 * 1024;
/// Largest body of `PUT clipboard`: the largest image in base64, which is more than the longest text with every byte
/// escaped sixfold, and room for the rest.
pub const MAX_BODY_BYTES: usize = MAX_IMAGE_BYTES / 3 * 4 + 64 * 1024;

/// The query of `clipboard`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ClipboardQuery {
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "default")]
    pub screen: Option<String>,
    /// `clipboard` (default), or `primary`: what was last marked with the pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(clipboard|primary)$")]
    pub selection: Option<String>,
}

/// `GET clipboard`: text, else an image, else nothing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Clipboard {
    /// `text/plain;charset=utf-8` or `image/png`; null when the clipboard is empty or holds neither.
    pub mime_type: Option<String>,
    /// The text, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The image in base64, at most 8 MiB of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The forms that its owner offers, in the owner's names; absent when the clipboard is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// `PUT clipboard`. Exactly one of `text` and `image` is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"text": "hello"}))]
pub struct SetClipboard {
    /// Text of at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// An image in base64, of at most 8 MiB of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `image/png`, which is also the default, with `image`; `text/plain` with `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}
