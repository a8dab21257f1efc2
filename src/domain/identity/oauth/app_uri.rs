//! Redirect URIs of apps: private-use URI schemes (RFC 8252 section 7.1).

use super::uri::{self, InvalidUri};

/// Longest scheme in bytes: a reversed domain name.
const MAX_SCHEME: usize = 100;

/// Schemes that browsers, mail programs, shells and other general programs handle. An answer to one of them
/// would run as a script, open a file, or reach another program than the client.
const GENERAL: [&str; 62] = [
    "about",
    "acap",
    "afp",
    "applescript",
    "bitcoin",
    "blob",
    "chrome",
    "cid",
    "content",
    "data",
    "dav",
    "dict",
    "dns",
    "edge",
    "ed2k",
    "facetime",
    "feed",
    "file",
    "filesystem",
    "ftp",
    "ftps",
    "geo",
    "git",
    "gopher",
    "hcp",
    "help",
    "http",
    "https",
    "imap",
    "intent",
    "irc",
    "itms",
    "jar",
    "javascript",
    "ldap",
    "ldaps",
    "livescript",
    "magnet",
    "mailto",
    "mhtml",
    "mid",
    "mms",
    "mocha",
    "news",
    "nfs",
    "nntp",
    "openapp",
    "pop",
    "resource",
    "rtsp",
    "sftp",
    "shell",
    "sip",
    "smb",
    "sms",
    "ssh",
    "tel",
    "telnet",
    "urn",
    "vbscript",
    "ws",
    "wss",
];
/// Beginnings of families of such schemes.
const FAMILIES: [&str; 9] =
    ["chrome-", "ms-", "moz-", "search-", "view-", "web+", "x-apple.", "android-", "vnd."];

/// A valid redirect URI of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppUri<'a> {
    /// The whole URI.
    pub uri: &'a str,
    /// The scheme, in lower case.
    pub scheme: &'a str,
}

impl<'a> AppUri<'a> {
    /// Parses `SCHEME://HOST...`, or `SCHEME:/PATH` for a scheme that is a reversed domain name.
    ///
    /// # Errors
    /// [`InvalidUri`], with the reason.
    pub fn parse(uri: &'a str) -> Result<Self, InvalidUri> {
        uri::check(uri)?;
        let (scheme, rest) = uri.split_once(':').ok_or(InvalidUri("has no scheme"))?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte);
        let named = scheme.starts_with(|first: char| first.is_ascii_lowercase()) && scheme.bytes().all(plain);
        if !named || scheme.len() > MAX_SCHEME {
            return Err(InvalidUri("has an invalid scheme"));
        }
        if GENERAL.contains(&scheme) || FAMILIES.iter().any(|family| scheme.starts_with(family)) {
            return Err(InvalidUri("has a scheme that is no app's own"));
        }
        let (host, is_path) = match rest.strip_prefix("//") {
            Some(rest) => (rest.split(['/', '?']).next().unwrap_or_default(), false),
            None => ("", rest.starts_with('/')),
        };
        if host.contains('@') {
            return Err(InvalidUri("has user information"));
        }
        if host.is_empty() && !(is_path && scheme.contains('.')) {
            return Err(InvalidUri("has no host"));
        }
        Ok(Self { uri, scheme })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemes_of_apps_are_accepted() {
        for (uri, scheme) in [
            ("cursor://anysphere.cursor-retrieval/oauth/user-x/callback", "cursor"),
            ("vscode://vscode.github-authentication/did-authenticate", "vscode"),
            ("vscode-insiders://x/cb?a=b", "vscode-insiders"),
            ("com.example.app:/oauth2redirect/example-provider", "com.example.app"),
            ("com.example.app://cb", "com.example.app"),
        ] {
            assert_eq!(AppUri::parse(uri).map(|app| app.scheme), Ok(scheme), "{uri}");
        }
        let long = format!("{}://x/cb", "a".repeat(MAX_SCHEME + 1));
        for wrong in [
            "javascript:alert(1)",
            "javascript://x/%0aalert(1)",
            "JavaScript://x/%0aalert(1)",
            "data:text/html,x",
            "data://text/html,x",
            "file:///etc/passwd",
            "file://host/share",
            "blob:https://app.example/1",
            "view-source://app.example/",
            "ms-msdt://x/y",
            "ms-settings:/x",
            "web+app://x/cb",
            "https://app.example/cb",
            "mailto:a@b.example",
            "urn:ietf:wg:oauth:2.0:oob",
            "cursor:cb",
            "cursor:/cb",
            "cursor://",
            "cursor:///cb",
            "cursor://u@x/cb",
            "cursor://x/cb#f",
            "cursor://*/cb",
            "cursor://x/ cb",
            "cursor://x/<script>",
            "com.example.app:cb",
            "1app://x/cb",
            "://x/cb",
            "/cb",
            "",
            &long,
        ] {
            assert!(AppUri::parse(wrong).is_err(), "{wrong}");
        }
    }
}
