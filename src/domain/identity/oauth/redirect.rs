//! Redirect URIs: which can be registered, and exact matching (RFC 9700 section 2.1).

use super::uri::{self, Parts};

/// Loopback hosts; only they can be used with plain http (RFC 8252 section 7.3).
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// A valid redirect URI: https, or http to a loopback host (MCP authorization, "Communication Security").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'a>(Parts<'a>);

impl<'a> Redirect<'a> {
    /// Parses a redirect URI.
    ///
    /// # Errors
    /// The reason, for a message.
    pub fn parse(uri: &'a str) -> Result<Self, &'static str> {
        let parts = uri::split(uri)?;
        if parts.secure || LOOPBACK.contains(&parts.host) {
            Ok(Self(parts))
        } else {
            Err("is plain http to another machine")
        }
    }

    /// Returns the host, for display.
    pub fn host(&self) -> &'a str {
        self.0.host
    }

    /// Whether the host is a loopback host.
    pub fn is_local(&self) -> bool {
        LOOPBACK.contains(&self.0.host)
    }

    /// Returns the origin: scheme, host and port.
    pub fn origin(&self) -> String {
        let scheme = if self.0.secure { "https" } else { "http" };
        let port = self.0.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{}{port}", self.0.host)
    }
}

/// Whether a requested redirect URI matches a registered one. For http to a loopback host the port is
/// ignored, because local programs use an ephemeral port (RFC 8252 section 7.3).
pub fn is_registered(registered: &str, requested: &str) -> bool {
    let (Ok(left), Ok(right)) = (Redirect::parse(registered), Redirect::parse(requested)) else {
        return false;
    };
    registered == requested
        || (!left.0.secure && !right.0.secure && (left.0.host, left.0.rest) == (right.0.host, right.0.rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a47_a_redirect_uri_matches_by_its_letters_and_only_a_local_port_is_free() {
        for (registered, requested) in [
            ("https://app.example/cb", "https://app.example/cb"),
            ("https://app.example/cb?a=b", "https://app.example/cb?a=b"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:51234/cb"),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:51234/cb"),
            ("http://[::1]:3000/cb", "http://[::1]/cb"),
            ("http://localhost:3000/cb", "http://localhost:3001/cb"),
        ] {
            assert!(is_registered(registered, requested), "{registered} {requested}");
        }
        let local = "http://127.0.0.1:3000/cb";
        let remote = "https://app.example/cb";
        for (registered, requested) in [
            (remote, "https://app.example/cb/"),
            (remote, "https://app.example/CB"),
            (remote, "https://APP.example/cb"),
            (remote, "https://app.example/%63b"),
            (remote, "https://app.example/x/../cb"),
            (remote, "https://app.example/%2e/cb"),
            (remote, "https://app.example:443/cb"),
            (remote, "https://app.example:8443/cb"),
            (remote, "https://app.example/cb?x=1"),
            (remote, "https://app.example/cb#x"),
            (remote, "https://u@app.example/cb"),
            (remote, "https://app.example@evil.example/cb"),
            (remote, "https://evil.example\\@app.example/cb"),
            (remote, "https://app.example.evil.example/cb"),
            (remote, "http://app.example/cb"),
            (remote, "https://app.example/cb\u{0}"),
            (local, "http://127.0.0.1.evil.example:3000/cb"),
            (local, "http://127.0.0.2:3000/cb"),
            (local, "http://127.1:3000/cb"),
            (local, "http://0.0.0.0:3000/cb"),
            (local, "http://localhost:3000/cb"),
            (local, "http://[::1]:3000/cb"),
            (local, "https://127.0.0.1:3000/cb"),
            (local, "http://127.0.0.1:3000/cb/"),
            (local, "http://127.0.0.1:3000/cb?x=1"),
            (local, "http://127.0.0.1:x/cb"),
            (local, "http://user:3000@127.0.0.1/cb"),
            ("https://localhost:3000/cb", "https://localhost:3001/cb"),
            ("javascript:alert(1)", "javascript:alert(1)"),
        ] {
            assert!(!is_registered(registered, requested), "{registered} {requested}");
        }
    }

    #[test]
    fn only_https_and_the_own_machine_may_be_registered() {
        for (uri, host, local, origin) in [
            ("https://app.example/cb", "app.example", false, "https://app.example"),
            ("http://localhost:3000/cb", "localhost", true, "http://localhost:3000"),
            ("http://[::1]:1/", "[::1]", true, "http://[::1]:1"),
            ("https://127.0.0.1/", "127.0.0.1", true, "https://127.0.0.1"),
        ] {
            let redirect = Redirect::parse(uri).unwrap();
            assert_eq!(
                (redirect.host(), redirect.is_local(), redirect.origin()),
                (host, local, origin.to_owned())
            );
        }
        for wrong in [
            "http://app.example/cb",
            "http://10.0.0.1/cb",
            "cursor://x/cb",
            "javascript:alert(1)",
            "https://*/",
        ] {
            assert!(Redirect::parse(wrong).is_err(), "{wrong}");
        }
    }
}
