//! Options of a screenshot request, validated (docs/api/actions.md).

use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Quality when the request has none: text stays readable.
pub(crate) const DEFAULT_QUALITY: u8 = 80;

/// File format and quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg {
        quality: u8,
    },
    /// `None` is lossless.
    Webp {
        quality: Option<u8>,
    },
}

/// Validated options of a screenshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScreenshotOptions {
    pub(crate) format: Format,
    pub(crate) scale: f64,
    /// In screen pixels; `None` is the whole screen.
    pub region: Option<Region>,
    /// Whether the cursor is drawn.
    pub cursor: bool,
    pub(crate) max_pixels: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
}

impl ScreenshotOptions {
    /// Validates the query. Its `screen` and `response_format` are ignored here.
    ///
    /// # Errors
    /// `Invalid` for an unknown word or a number out of range.
    pub fn parse(query: &ScreenshotQuery) -> Result<Self> {
        if query.quality.is_some_and(|quality| !(1..=100).contains(&quality)) {
            return Err(Error::invalid("quality must be 1 to 100"));
        }
        let format = match query.format.as_deref() {
            None | Some("png") => Format::Png,
            Some("jpeg" | "jpg") => Format::Jpeg { quality: query.quality.unwrap_or(DEFAULT_QUALITY) },
            Some("webp") => Format::Webp { quality: query.quality },
            Some(_) => return Err(Error::invalid("format must be png, jpeg or webp")),
        };
        let scale = query.scale.unwrap_or(1.0);
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(Error::invalid("scale must be above 0 and at most 1"));
        }
        let cursor = match query.cursor.as_deref() {
            None | Some("on") => true,
            Some("off") => false,
            Some(_) => return Err(Error::invalid("cursor must be on or off")),
        };
        if query.max_pixels == Some(0) || query.max_bytes == Some(0) {
            return Err(Error::invalid("max_pixels and max_bytes must be at least 1"));
        }
        let region = query.region.as_deref().map(str::parse).transpose()?;
        let (max_pixels, max_bytes) = (query.max_pixels.map(u64::from), query.max_bytes.map(u64::from));
        Ok(Self { format, scale, region, cursor, max_pixels, max_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a query string.
    fn parse(query: &str) -> Option<ScreenshotOptions> {
        serde_urlencoded::from_str(query).ok().and_then(|query| ScreenshotOptions::parse(&query).ok())
    }

    #[test]
    fn options_are_parsed_or_refused() {
        let plain = parse("").unwrap();
        assert_eq!((plain.format, plain.scale, plain.region, plain.cursor), (Format::Png, 1.0, None, true));
        for (query, format) in [
            ("format=png&quality=1&scale=1", Format::Png),
            ("format=jpeg", Format::Jpeg { quality: DEFAULT_QUALITY }),
            ("format=jpg&quality=100&scale=0.001", Format::Jpeg { quality: 100 }),
            ("format=webp", Format::Webp { quality: None }),
            ("format=webp&quality=80&cursor=off&region=0,0,1,1", Format::Webp { quality: Some(80) }),
            ("cursor=on&max_pixels=1&max_bytes=1", Format::Png),
        ] {
            assert_eq!(parse(query).map(|options| options.format), Some(format), "{query}");
        }
        for bad in [
            "format=gif",
            "format=PNG",
            "format=",
            "quality=0",
            "quality=101",
            "quality=-1",
            "scale=0",
            "scale=1.01",
            "scale=-1",
            "scale=NaN",
            "cursor=maybe",
            "cursor=",
            "region=",
            "region=1,2,3",
            "max_pixels=0",
            "max_bytes=0",
            "max_bytes=-1",
            "max_pixels=1.5",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
