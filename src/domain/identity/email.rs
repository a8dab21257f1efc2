//! Which e-mail addresses do people sign in with? Whatever a mail server could take; nothing is ever sent there.

use std::fmt;

use super::error::{Error, Result};

/// Longest address in bytes (RFC 5321 section 4.5.3.1.3, less the brackets).
const MAX_BYTES: usize = 254;

/// An address in small letters: two that differ in case alone are one account's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// Trims and checks an address: something, one `@`, something, with nothing in it that is not seen.
    ///
    /// # Errors
    /// `Invalid`, without quoting it.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let sides = trimmed.split_once('@').is_some_and(|(before, behind)| {
            !before.is_empty() && !behind.is_empty() && !behind.contains('@')
        });
        let unseen =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | ',' | ';');
        if !sides || trimmed.len() > MAX_BYTES || trimmed.chars().any(unseen) {
            return Err(Error::invalid("that is no e-mail address (name@host)").code("INVALID_REQUEST"));
        }
        Ok(Self(trimmed.to_lowercase()))
    }

    /// Its text.
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
    fn addresses_are_told_from_other_texts() {
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
