//! URL splitter without normalization: text is compared and shown as it was sent (RFC 3986 section 6.2.1).

use std::fmt;

/// Longest URL of a client, in bytes.
pub const MAX_BYTES: usize = 2048;

/// Refusal of a URI. The text continues a sentence that begins with the URI: "is not https".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUri(pub(super) &'static str);

impl fmt::Display for InvalidUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidUri {}

/// Parts of an `http` or `https` URL, which together are the whole URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Whether it is `https`.
    pub secure: bool,
    /// The host: a name, an IPv4 address, or `[::1]`.
    pub host: &'a str,
    /// The port, if present.
    pub port: Option<u16>,
    /// Path and query; empty when both are absent.
    pub rest: &'a str,
}

/// Checks what holds for the URIs of every scheme.
///
/// # Errors
/// [`InvalidUri`]: its length, a fragment, a wildcard, or an invalid character.
pub fn check(uri: &str) -> Result<(), InvalidUri> {
    if uri.len() > MAX_BYTES {
        return Err(InvalidUri("is longer than 2048 bytes"));
    }
    if !uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte)) {
        return Err(InvalidUri("has a character that is not valid in a URL"));
    }
    if uri.contains('#') {
        return Err(InvalidUri("has a fragment"));
    }
    if uri.contains('*') {
        return Err(InvalidUri("has a wildcard"));
    }
    Ok(())
}

/// Splits a URL into its parts.
///
/// # Errors
/// [`InvalidUri`]: another scheme, user information, or what [`check`] refuses.
pub fn split(uri: &str) -> Result<Parts<'_>, InvalidUri> {
    check(uri)?;
    let (secure, rest) = match (uri.strip_prefix("https://"), uri.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(InvalidUri("is neither https:// nor http://")),
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(InvalidUri("has user information"));
    }
    let (host, port) = match authority.rfind(':').filter(|at| !authority[*at..].contains(']')) {
        Some(at) => (&authority[..at], Some(&authority[at + 1..])),
        None => (authority, None),
    };
    let named =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if !named && host != "[::1]" {
        return Err(InvalidUri("has an invalid host"));
    }
    let port = port.map(|port| match port.parse() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(InvalidUri("has an invalid port")),
    });
    Ok(Parts { secure, host, port: port.transpose()?, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_without_normalization() {
        let cut = |uri| split(uri).map(|parts| (parts.secure, parts.host, parts.port, parts.rest));
        assert_eq!(cut("https://a.example/cb?x=1"), Ok((true, "a.example", None, "/cb?x=1")));
        assert_eq!(cut("http://127.0.0.1:80/cb"), Ok((false, "127.0.0.1", Some(80), "/cb")));
        assert_eq!(cut("http://[::1]:9"), Ok((false, "[::1]", Some(9), "")));
        assert_eq!(cut("https://a.example?x=:1/"), Ok((true, "a.example", None, "?x=:1/")));
        let long = format!("https://a.example/{}", "x".repeat(MAX_BYTES));
        for wrong in [
            "",
            "javascript:alert(1)",
            "data:text/html,x",
            "HTTPS://a.example/",
            "//a.example/",
            "https:/a.example/",
            "https://",
            "https:///cb",
            "https://:443/cb",
            "https://u@a.example/cb",
            "https://a.example@evil.example/cb",
            "https://a.example\\@evil.example/cb",
            "https://a.example/cb#",
            "https://*.example/cb",
            "https://a.example/*",
            "https://a.example:0/cb",
            "https://a.example:99999/cb",
            "https://a.example:+80/cb",
            "https://a.example:/cb",
            "https://a.example /cb",
            "https://a.example/\n",
            "https://é.example/cb",
            "https://[2001:db8::1]/cb",
            "http://[::1/cb",
            &long,
        ] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
