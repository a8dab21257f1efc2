//! Names of workspaces, computers and keys: 1 to 255 characters after trimming (docs/api/conventions.md).

use std::fmt;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Longest name, in characters (Unicode scalar values).
pub const MAX_CHARACTERS: usize = 255;

/// A validated, trimmed name. It is never part of a command line or a path (T9, docs/security.md).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Trims and checks a name.
    ///
    /// # Errors
    /// `Invalid` (`INVALID_REQUEST`) when it is empty, too long or holds a control character.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let count = trimmed.chars().count();
        if count == 0 || count > MAX_CHARACTERS {
            return Err(Error::invalid(format!("name must be 1 to {MAX_CHARACTERS} characters"))
                .code(ErrorCode::InvalidRequest));
        }
        if trimmed.chars().any(char::is_control) {
            return Err(
                Error::invalid("name must not hold control characters").code(ErrorCode::InvalidRequest)
            );
        }
        Ok(Self(trimmed.to_owned()))
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the case-folded name: two names of one account or workspace are the same when their folded
    /// forms are.
    pub fn folded(&self) -> String {
        fold(&self.0)
    }
}

/// Trims and case-folds a name for comparison.
pub fn fold(name: &str) -> String {
    name.trim().to_lowercase()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_measured_in_characters() {
        assert_eq!(Name::parse("  demo  ").unwrap().as_str(), "demo");
        assert_eq!(Name::parse(&"語".repeat(255)).unwrap().as_str().chars().count(), 255);
        assert!(Name::parse("../../etc; $(reboot) `x` 'y' \"z\"").is_ok());
        for bad in ["", "   ", &"a".repeat(256), &"語".repeat(256), "a\0b", "a\nb", "\u{7f}"] {
            assert_eq!(Name::parse(bad).unwrap_err().code, Some(ErrorCode::InvalidRequest), "{bad:?}");
        }
    }
}
