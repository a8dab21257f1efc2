//! Validation of file names and export paths (T7, docs/security.md).

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Longest name in bytes: the limit of Linux file systems (`NAME_MAX`).
pub const MAX_BYTES: usize = 255;

/// A file name that is safe to create inside a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// Checks a name that a client sent. The name is accepted unchanged or refused, so that the file is
    /// stored under the name that the client expects.
    ///
    /// # Errors
    /// `Invalid` with the reason.
    pub fn parse(name: &str) -> Result<Self> {
        let refuse =
            |why: &str| Err(Error::invalid(format!("filename {why}")).code(ErrorCode::InvalidRequest));
        if name.is_empty() {
            return refuse("is missing");
        }
        if name.len() > MAX_BYTES {
            return refuse("is longer than 255 bytes");
        }
        if name == "." || name == ".." {
            return refuse("names a directory");
        }
        if name.contains(['/', '\\']) {
            return refuse("holds a path separator");
        }
        if name.chars().any(char::is_control) {
            return refuse("holds a control character");
        }
        if name.chars().any(reorders_text) {
            return refuse("holds a character that changes the direction of text");
        }
        if name.trim() != name {
            return refuse("begins or ends with white space");
        }
        Ok(Self(name.to_owned()))
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Longest path in bytes: the limit of Linux (`PATH_MAX`).
pub const MAX_PATH: usize = 4096;

/// Returns the absolute path of a file to export. `path` is relative to the home folder, begins with `~/`, or
/// is absolute below `/root` or `/home/user` (docs/api/files.md).
///
/// # Errors
/// `Invalid` when it does not name a file; `Forbidden` when it is outside of these folders.
pub fn exportable(path: &str) -> Result<String> {
    if path.is_empty() || path.len() > MAX_PATH || path.ends_with('/') || path.chars().any(char::is_control) {
        return Err(Error::invalid("path must name a file").code(ErrorCode::InvalidRequest));
    }
    let absolute = match path.strip_prefix("~/") {
        Some(rest) => format!("/root/{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("/root/{path}"),
    };
    if absolute.split('/').any(|part| part == ".." || part == ".") {
        return Err(Error::forbidden("path must not hold . or .. parts"));
    }
    if absolute.starts_with("/root/") || absolute.starts_with("/home/user/") {
        return Ok(absolute);
    }
    Err(Error::forbidden("only files below /root and /home/user can be exported"))
}

/// Unicode's bidirectional embeddings, overrides and isolates (UAX #9): they make `exe.txt` read as
/// `txt.exe`.
fn reorders_text(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_stay_in_the_home_folder() {
        for (path, absolute) in [
            ("Desktop/a.txt", "/root/Desktop/a.txt"),
            ("~/a.txt", "/root/a.txt"),
            ("/root/a.txt", "/root/a.txt"),
            ("/home/user/Desktop/a b.txt", "/home/user/Desktop/a b.txt"),
        ] {
            assert_eq!(exportable(path).unwrap(), absolute);
        }
        for bad in [
            "",
            "/etc/passwd",
            "../etc/passwd",
            "~/../x",
            "/root/./x",
            "/rootx/y",
            "/root/",
            "a\0b",
            "/home/userx/y",
        ] {
            assert!(exportable(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn hostile_names_are_refused_and_odd_ones_kept() {
        for good in [
            "report.pdf",
            "-rf",
            ".hidden",
            "名前.txt",
            "a b.txt",
            "CON",
            "aux.txt",
            "$(reboot)",
            "%2e%2e%2f",
            "😀",
            &"x".repeat(255),
        ] {
            assert_eq!(FileName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "C:\\x",
            "a\0b",
            "a\nb",
            "\u{1b}[31m",
            " x",
            "x ",
            "invoice\u{202e}fdp.exe",
            "\u{2066}x",
            &"x".repeat(256),
            &"語".repeat(86),
        ] {
            assert!(FileName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
