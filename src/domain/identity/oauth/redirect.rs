//! Redirect URIs: which can be registered, and exact matching (RFC 9700 section 2.1).

use super::app_uri::AppUri;
use super::uri::{self, InvalidUri, Parts};

/// Loopback hosts; only they can be used with plain http (RFC 8252 section 7.3).
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// A valid redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect<'a> {
    /// https, or http to a loopback host (MCP authorization, "Communication Security").
    Web(Parts<'a>),
    /// An app on the person's machine (RFC 8252 section 7.1).
    App(AppUri<'a>),
}

impl<'a> Redirect<'a> {
    /// Parses a redirect URI.
    ///
    /// # Errors
    /// [`InvalidUri`], with the reason.
    pub fn parse(uri: &'a str) -> Result<Self, InvalidUri> {
        if !uri.starts_with("https:") && !uri.starts_with("http:") {
            return AppUri::parse(uri).map(Self::App);
        }
        let parts = uri::split(uri)?;
        if parts.secure || LOOPBACK.contains(&parts.host) {
            Ok(Self::Web(parts))
        } else {
            Err(InvalidUri("is plain http to another machine"))
        }
    }

    /// Returns where the response goes, for display: a host, or the whole URI of an app.
    pub fn shown(&self) -> &'a str {
        match self {
            Self::Web(parts) => parts.host,
            Self::App(app) => app.uri,
        }
    }

    /// Whether the response goes to a program on the person's own machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Web(parts) => LOOPBACK.contains(&parts.host),
            Self::App(_) => true,
        }
    }

    /// Returns the source expression that allows the redirect (CSP 3 section 2.3.1).
    pub fn csp_source(&self) -> String {
        match self {
            // The grammar has no IPv6 addresses.
            Self::Web(parts) if parts.host.starts_with('[') => "http: https:".to_owned(),
            Self::Web(parts) => {
                let scheme = if parts.secure { "https" } else { "http" };
                let port = parts.port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("{scheme}://{}{port}", parts.host)
            }
            Self::App(app) => format!("{}:", app.scheme),
        }
    }
}

/// Whether a requested redirect URI matches a registered one. For http to a loopback host the port is
/// ignored, because local programs use an ephemeral port (RFC 8252 section 7.3).
pub fn is_registered(registered: &str, requested: &str) -> bool {
    let (Ok(left), Ok(right)) = (Redirect::parse(registered), Redirect::parse(requested)) else {
        return false;
    };
    let (Redirect::Web(left), Redirect::Web(right)) = (left, right) else { return registered == requested };
    registered == requested
        || (!left.secure && !right.secure && (left.host, left.rest) == (right.host, right.rest))
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
            ("cursor://x/oauth/callback", "cursor://x/oauth/callback"),
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
            ("cursor://x/cb", "cursor://x/CB"),
            ("cursor://x/cb", "cursor://x:1/cb"),
            ("cursor://x/cb", "Cursor://x/cb"),
            ("cursor://x/cb", "http://127.0.0.1/cb"),
        ] {
            assert!(!is_registered(registered, requested), "{registered} {requested}");
        }
    }

    #[test]
    fn only_https_and_the_own_machine_may_be_registered() {
        for (uri, shown, local, source) in [
            ("https://app.example/cb", "app.example", false, "https://app.example"),
            ("http://localhost:3000/cb", "localhost", true, "http://localhost:3000"),
            ("http://[::1]:1/", "[::1]", true, "http: https:"),
            ("cursor://x/oauth/callback", "cursor://x/oauth/callback", true, "cursor:"),
            ("https://127.0.0.1/", "127.0.0.1", true, "https://127.0.0.1"),
        ] {
            let redirect = Redirect::parse(uri).unwrap();
            assert_eq!(
                (redirect.shown(), redirect.is_local(), redirect.csp_source()),
                (shown, local, source.to_owned())
            );
        }
        for wrong in [
            "http://app.example/cb",
            "http://10.0.0.1/cb",
            "https:/app.example/cb",
            "javascript:alert(1)",
            "https://*/",
        ] {
            assert!(Redirect::parse(wrong).is_err(), "{wrong}");
        }
    }
}
