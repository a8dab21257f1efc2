//! Which names may an uploaded file have? A plain base name that no shell, path or person can misread (threats.md T7).

use super::error::{Error, Result};

/// Longest name in bytes: the limit of Linux file systems (`NAME_MAX`).
pub const MAX_BYTES: usize = 255;

/// A file name that is safe to create inside a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// Checks a name as a client sent it. Nothing is cut off or replaced: a name that needs mending is refused, so
    /// that the file is where the client thinks it is.
    ///
    /// # Errors
    /// `Invalid` saying what is wrong with it.
    pub fn parse(name: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::invalid(format!("filename {why}")).code("INVALID_REQUEST"));
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

/// Unicode's bidirectional embeddings, overrides and isolates (UAX #9): they make `exe.txt` read as `txt.exe`.
fn reorders_text(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
