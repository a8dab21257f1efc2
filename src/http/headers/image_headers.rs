//! Header fields of binary screenshots, and entity tags of frames.
//!
//! The agent writes them. The controller parses them strictly, because a guest is not trusted, and writes its
//! own.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use hotdesk_wire::desktop::screenshot::{
    FRAME_HEADER, HEIGHT_HEADER, SCALE_HEADER, SCREEN_HEADER, ScreenshotFrame, WIDTH_HEADER,
};

/// Longest name of a frame or screen in bytes; names of hotdesk have half of that.
const MAX_NAME: usize = 40;
/// Most entity tags that are read from one request; a client has a handful of images.
const MAX_TAGS: usize = 16;
/// Clients may cache an image and must revalidate it.
const CACHING: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The description of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageHeaders {
    /// Its unique name, which is also the entity tag.
    pub frame: Arc<str>,
    /// The screen's id.
    pub screen: String,
    /// Image size divided by screen size, above 0 and at most 1.
    pub scale: f64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl ImageHeaders {
    /// Writes the header fields of a response with this image, or of a 304.
    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in [
            (HeaderName::from_static(FRAME_HEADER), self.frame.to_string()),
            (HeaderName::from_static(SCREEN_HEADER), self.screen.clone()),
            (HeaderName::from_static(SCALE_HEADER), self.scale.to_string()),
            (HeaderName::from_static(WIDTH_HEADER), self.width.to_string()),
            (HeaderName::from_static(HEIGHT_HEADER), self.height.to_string()),
            (header::ETAG, format!("\"{}\"", self.frame)),
        ] {
            // Always valid: the agent makes the names, and `read` checks them.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        headers.insert(header::CACHE_CONTROL, CACHING);
    }

    /// Parses the header fields of a response; `None` when one is missing or invalid.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let side =
            |name: &str| text(name)?.parse().ok().filter(|side| (1..=u32::from(u16::MAX)).contains(side));
        Some(Self {
            frame: text(FRAME_HEADER).filter(|name| is_name(name))?.into(),
            screen: text(SCREEN_HEADER).filter(|name| is_name(name))?.to_owned(),
            scale: text(SCALE_HEADER)?.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0)?,
            width: side(WIDTH_HEADER)?,
            height: side(HEIGHT_HEADER)?,
        })
    }

    /// The same as JSON fields.
    pub fn shown(&self) -> ScreenshotFrame {
        ScreenshotFrame {
            frame: Some(self.frame.to_string()),
            scale: Some(self.scale),
            screen: Some(self.screen.clone()),
        }
    }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(plain)
}

/// The frames in `If-None-Match`; invalid tags and `*` are ignored.
#[derive(Clone, Debug, Default)]
pub struct IfNoneMatch(pub Vec<Arc<str>>);

impl IfNoneMatch {
    fn read(headers: &HeaderMap) -> Self {
        let fields =
            headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|field| field.to_str().ok());
        let tags = fields.flat_map(|field| field.split(',')).map(str::trim);
        // RFC 9110 section 13.1.2: weak comparison, so the prefix `W/` does not matter.
        let names =
            tags.filter_map(|tag| tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"'));
        Self(names.filter(|name| is_name(name)).take(MAX_TAGS).map(Arc::from).collect())
    }

    /// The header value for a request to the agent; `None` without tags.
    pub fn field(&self) -> Option<HeaderValue> {
        let tags: Vec<String> = self.0.iter().map(|name| format!("\"{name}\"")).collect();
        if tags.is_empty() { None } else { HeaderValue::try_from(tags.join(", ")).ok() }
    }
}

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::read(&parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_fields_round_trip_and_invalid_ones_are_rejected() {
        let marks = ImageHeaders {
            frame: "0a-7".into(),
            screen: "default".to_owned(),
            scale: 0.3325,
            width: 266,
            height: 9,
        };
        let mut headers = HeaderMap::new();
        marks.write(&mut headers);
        assert_eq!(headers[header::ETAG], "\"0a-7\"");
        assert_eq!(ImageHeaders::read(&headers), Some(marks));
        let long = "x".repeat(MAX_NAME + 1);
        for (name, invalid) in [
            (FRAME_HEADER, ""),
            (FRAME_HEADER, "a b"),
            (FRAME_HEADER, "a\"b"),
            (FRAME_HEADER, "\u{fc}"),
            (FRAME_HEADER, &long),
            (SCREEN_HEADER, "../x"),
            (SCALE_HEADER, "0"),
            (SCALE_HEADER, "NaN"),
            (SCALE_HEADER, "1.5"),
            (WIDTH_HEADER, "0"),
            (WIDTH_HEADER, "65536"),
            (HEIGHT_HEADER, "-1"),
        ] {
            let mut changed = headers.clone();
            changed.insert(name, HeaderValue::from_bytes(invalid.as_bytes()).unwrap());
            assert_eq!(ImageHeaders::read(&changed), None, "{name}: {invalid}");
            changed.remove(name);
            assert_eq!(ImageHeaders::read(&changed), None, "without {name}");
        }
    }

    #[test]
    fn tags_are_read_as_names() {
        let many = (0..100).map(|n| format!("\"f-{n}\"")).collect::<Vec<_>>().join(",");
        for (field, names) in [
            ("\"a-1\"", vec!["a-1"]),
            (" W/\"a-1\" , \"b-2\",\"a-1\"", vec!["a-1", "b-2", "a-1"]),
            ("*", vec![]),
            ("", vec![]),
            ("a-1, \"b", vec![]),
            ("\"a 1\", \"A-1\", \"\"", vec![]),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, field.parse().unwrap());
            let read = IfNoneMatch::read(&headers);
            assert_eq!(read.0.iter().map(|name| &**name).collect::<Vec<_>>(), names, "{field}");
            assert_eq!(read.field().is_some(), !names.is_empty());
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, many.parse().unwrap());
        headers.append(header::IF_NONE_MATCH, many.parse().unwrap());
        assert_eq!(IfNoneMatch::read(&headers).0.len(), MAX_TAGS);
    }
}
