//! E-mail addresses for sign-in. Any plausible address is accepted, because it need not receive mail.

use std::fmt;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Longest address, in bytes (RFC 5321 section 4.5.3.1.3, without the angle brackets).
const MAX_BYTES: usize = 254;

/// A lower-case address: addresses that differ only in case belong to one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// Trims and checks an address: text, one `@`, text, without white space and control characters.
    ///
    /// # Errors
    /// `Invalid` for any other text; the message does not quote it.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let sides = trimmed.split_once('@').is_some_and(|(before, behind)| {
            !before.is_empty() && !behind.is_empty() && !behind.contains('@')
        });
        let unseen =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | ',' | ';');
        if !sides || trimmed.len() > MAX_BYTES || trimmed.chars().any(unseen) {
            return Err(Error::invalid("the e-mail address is not valid: use name@host")
                .code(ErrorCode::InvalidRequest));
        }
        Ok(Self(trimmed.to_lowercase()))
    }

    /// Returns the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_other_text() {
        for (text, address) in [
            (" Ada@Example.ORG ", "ada@example.org"),
            ("operator@localhost", "operator@localhost"),
            ("ä+b@例え.jp", "ä+b@例え.jp"),
        ] {
            assert_eq!(Email::parse(text).unwrap().as_str(), address);
        }
        let long = format!("{}@x.example", "a".repeat(MAX_BYTES));
        for bad in
            ["", "@", "a@", "@b", "a", "a@b@c", "a b@c", "a\nb@c", "a\u{0}@b", "<a@b>", "a@b,c@d", &long]
        {
            let refused = Email::parse(bad).map(|address| address.to_string());
            assert!(refused.is_err(), "{bad:?}: {refused:?}");
        }
    }
}
