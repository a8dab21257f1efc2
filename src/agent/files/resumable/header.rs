//! Header fields of tus clients (tus 1.0.0: Upload-Metadata, Upload-Length, Upload-Offset).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files::write::desktop_upload::DESKTOP;
use crate::files::write::temp_file::WriteOptions;
use crate::files::write::upload::mode;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::FileName;

/// Longest metadata field in bytes: a path and a name in base64, and the client's own keys.
const MAX_METADATA: usize = 16 * 1024;

/// Destination of a complete upload.
#[derive(Debug)]
pub struct UploadTarget {
    /// Path, or name on the desktop.
    pub path: TargetPath,
    /// Handling of an existing file.
    pub options: WriteOptions,
    /// Create missing parent folders.
    pub parents: bool,
}

/// Path of a destination.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetPath {
    /// `path`.
    Path(String),
    /// `filename` alone.
    Desktop(FileName),
}

impl TargetPath {
    /// Text for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Path(path) => path.clone(),
            Self::Desktop(name) => format!("{DESKTOP}/{}", name.as_str()),
        }
    }
}

/// Parses `Upload-Metadata`: `path` (`filename` is appended when it ends with `/`) or `filename`;
/// `overwrite`, `parents`, `mode`, `modified`. Other keys are ignored.
///
/// # Errors
/// `Invalid`; the message names the bad key.
pub fn parse_target(metadata: &str) -> Result<UploadTarget> {
    let invalid =
        |what: &str| Error::invalid(format!("Upload-Metadata: {what}")).code(ErrorCode::InvalidRequest);
    if metadata.len() > MAX_METADATA {
        return Err(invalid("longer than 16 KiB"));
    }
    let mut seen = std::collections::BTreeMap::new();
    for pair in metadata.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
        let value = STANDARD.decode(value.trim()).map_err(|_| invalid(&format!("{key} is not base64")))?;
        if seen.insert(key, value).is_some() {
            return Err(invalid(&format!("{key} comes twice")));
        }
    }
    let text = |key: &str| -> Result<Option<String>> {
        let Some(value) = seen.get(key) else { return Ok(None) };
        let text = String::from_utf8(value.clone()).map_err(|_| invalid(&format!("{key} is not UTF-8")))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    };
    let flag = |key: &str| match text(key)?.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid(&format!("{key} is not true or false"))),
    };
    let place = match (text("path")?, text("filename")?) {
        (Some(folder), Some(name)) if folder.ends_with('/') => TargetPath::Path(format!("{folder}{name}")),
        (Some(path), _) => TargetPath::Path(path),
        (None, Some(name)) => TargetPath::Desktop(FileName::parse(&name)?),
        (None, None) => return Err(invalid("path or filename is needed")),
    };
    let modified = text("modified")?.map(|text| text.parse());
    let options = WriteOptions {
        overwrite: flag("overwrite")?,
        mode: mode(text("mode")?.as_deref())?,
        modified: modified.transpose().map_err(|_| invalid("modified is not a whole number of seconds"))?,
    };
    Ok(UploadTarget { path: place, options, parents: flag("parents")? })
}

/// Parses a number of bytes: only digits.
///
/// # Errors
/// `Invalid` when it is missing or not a number.
pub fn bytes(name: &str, value: Option<&str>) -> Result<u64> {
    let invalid = |what: &str| Error::invalid(format!("{name} {what}")).code(ErrorCode::InvalidRequest);
    let value = value.ok_or_else(|| invalid("is missing"))?;
    let digits = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or_else(|| invalid("is not a number of bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_pairs_of_a_key_and_base64() {
        let encoded = |pairs: &[(&str, &str)]| {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value))).collect();
            pairs.join(",")
        };
        let path = |text: &str| TargetPath::Path(text.to_owned());
        for (metadata, place) in [
            (encoded(&[("path", "a/b")]), path("a/b")),
            (encoded(&[("path", "a/b"), ("filename", "c")]), path("a/b")),
            (encoded(&[("path", "a/"), ("filename", "名")]), path("a/名")),
            (encoded(&[("filename", "c.txt")]), TargetPath::Desktop(FileName::parse("c.txt").unwrap())),
            (format!("relativePath, {} ,is_secret", encoded(&[("path", "x")])), path("x")),
            (encoded(&[("path", "x"), ("other", "\u{1}")]), path("x")),
        ] {
            assert_eq!(parse_target(&metadata).unwrap().path, place, "{metadata}");
        }
        let all =
            [("path", "x"), ("overwrite", "true"), ("parents", "true"), ("mode", "600"), ("modified", "-7")];
        let all = parse_target(&encoded(&all)).unwrap();
        assert!(all.parents && all.options.overwrite && all.options.mode == Some(0o600));
        assert_eq!(all.options.modified, Some(-7));
        for bad in [
            String::new(),
            "path".to_owned(),
            "path !!!".to_owned(),
            "path YQ== YQ==".to_owned(),
            format!("path {}", STANDARD.encode(b"\xff")),
            encoded(&[("path", "x"), ("path", "y")]),
            encoded(&[("filename", "../x")]),
            encoded(&[("filename", "a/b")]),
            encoded(&[("path", "x"), ("overwrite", "yes")]),
            encoded(&[("path", "x"), ("mode", "4755")]),
            encoded(&[("path", "x"), ("modified", "1.5")]),
            encoded(&[("path", &"x".repeat(MAX_METADATA))]),
        ] {
            assert!(parse_target(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_digits() {
        for (value, wanted) in [("0", 0), ("00", 0), ("18446744073709551615", u64::MAX)] {
            assert_eq!(bytes("Upload-Length", Some(value)).unwrap(), wanted);
        }
        for bad in [
            None,
            Some(""),
            Some("-1"),
            Some("+1"),
            Some("1.0"),
            Some("0x1"),
            Some(" 1"),
            Some("18446744073709551616"),
        ] {
            assert!(bytes("Upload-Length", bad).is_err(), "{bad:?}");
        }
    }
}
