//! RTMP destinations, stream keys and names of saved connections (docs/api/streaming.md).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::name::Name;
use crate::network::address;

/// Longest URL, in bytes: those of streaming services are below 200.
pub const MAX_URL: usize = 512;
/// Longest key, in bytes: those of streaming services are below 200 with parameters. ffmpeg reads it in a
/// line of at most 999 bytes.
pub const MAX_KEY: usize = 512;
/// Longest host name, in bytes (RFC 1035).
const MAX_HOST: usize = 253;
/// Largest number of saved connections of an account: more than anyone needs, and a bound for a loop.
pub const MAX_CONNECTIONS: u32 = 100;

/// Host of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An IP address.
    Address(IpAddr),
    /// A lower-case host name.
    Name(String),
}

/// An RTMP server and the application on it: `rtmp[s]://host[:port]/app[/instance]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Whether the connection uses TLS (`rtmps`).
    pub secure: bool,
    /// Host of the server.
    pub host: Host,
    /// TCP port; the default is 1935 for rtmp and 443 for rtmps.
    pub port: u16,
    /// The application, without the leading slash.
    pub app: String,
}

impl Destination {
    /// Parses a URL.
    ///
    /// # Errors
    /// `Invalid` with the reason; the message does not quote the URL.
    pub fn parse(url: &str) -> Result<Self> {
        if url.len() > MAX_URL {
            return Err(wrong(format!("is longer than {MAX_URL} bytes")));
        }
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("must begin with rtmp:// or rtmps://"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "rtmp" => false,
            "rtmps" => true,
            _ => return Err(wrong("must begin with rtmp:// or rtmps://")),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("has a character that is not valid in a URL"));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("must not have parameters: put them into the key"));
        }
        let (authority, app) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(wrong("must not have a user name or a password"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) =
                    inner.split_once(']').ok_or_else(|| wrong("has an incomplete IP address"))?;
                let address: Ipv6Addr = host.parse().map_err(|_| wrong("has an invalid IP address"))?;
                let port = if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':').ok_or_else(|| wrong("has text after its IP address"))?)
                };
                (Host::Address(address.into()), port)
            }
            None => {
                let (host, port) = match authority.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (authority, None),
                };
                (named(host)?, port)
            }
        };
        let port = match port {
            None => usual_port(secure),
            Some(text) => {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let port = text.parse::<u16>().ok().filter(|port| digits && *port != 0);
                port.ok_or_else(|| wrong("has an invalid port"))?
            }
        };
        let app = app.trim_end_matches('/');
        if app.is_empty() {
            return Err(wrong("must name an application, as in rtmp://host/app"));
        }
        Ok(Self { secure, host, port, app: app.to_owned() })
    }

    /// Whether the host is certainly not on the public Internet, without a DNS query.
    pub fn is_private(&self) -> bool {
        match &self.host {
            Host::Address(address) => !address::is_public(*address),
            // RFC 6761 section 6.3.
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// Returns the error for an address that is not public.
    pub fn private() -> Error {
        Error::invalid(
            "The streaming server has a private address, and this service's configuration allows none",
        )
        .code(ErrorCode::PrivateAddress)
    }
}

/// The normalized URL, without the default port, as it is stored and sent to the server (`tcUrl`).
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "rtmps" } else { "rtmp" };
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "{scheme}://[{address}]")?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{scheme}://{address}")?,
            Host::Name(name) => write!(f, "{scheme}://{name}")?,
        }
        if self.port != usual_port(self.secure) {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", self.app)
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 1935 }
}

fn named(host: &str) -> Result<Host> {
    if host.is_empty() || host.len() > MAX_HOST {
        return Err(wrong("must name a host"));
    }
    let host = host.to_ascii_lowercase();
    let fine = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = host.strip_suffix('.').unwrap_or(&host);
    if !name.split('.').all(fine) {
        return Err(wrong("has an invalid host name"));
    }
    // A host that ends in a number must be an IPv4 address: resolvers also accept 127.1, 0x7f000001 and
    // 2130706433.
    let last = name.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    if number {
        let address: Ipv4Addr = name.parse().map_err(|_| wrong("has an invalid IP address"))?;
        return Ok(Host::Address(address.into()));
    }
    Ok(Host::Name(name.to_owned()))
}

fn wrong(what: impl fmt::Display) -> Error {
    Error::invalid(format!("url {what}")).code(ErrorCode::InvalidRequest)
}

/// Checks a stream key, which may have parameters.
///
/// # Errors
/// `Invalid` when it is empty, too long or has white space or non-ASCII characters; the message does not
/// quote it.
pub fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(
            Error::invalid(format!("key must be 1 to {MAX_KEY} bytes")).code(ErrorCode::InvalidRequest)
        );
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "key must have only printable ASCII characters and no white space";
        return Err(Error::invalid(message).code(ErrorCode::InvalidRequest));
    }
    Ok(())
}

/// Parses the name of a saved connection. The name is a path segment of the API, so it has no slash.
///
/// # Errors
/// `Invalid` when it is not a valid [`Name`], has a slash, or is `.` or `..`.
pub fn connection_name(text: &str) -> Result<Name> {
    let name = Name::parse(text)?;
    if name.as_str().contains(['/', '\\']) || matches!(name.as_str(), "." | "..") {
        return Err(Error::invalid("name must not have a slash and must not be . or ..")
            .code(ErrorCode::InvalidRequest));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_urls_are_normalized() {
        for (url, written) in [
            ("rtmp://live.twitch.tv/app", "rtmp://live.twitch.tv/app"),
            ("rtmp://live.twitch.tv/app/", "rtmp://live.twitch.tv/app"),
            ("RTMPS://A.Example.ORG:443/live2//", "rtmps://a.example.org/live2"),
            ("rtmps://a.example.org/x", "rtmps://a.example.org/x"),
            ("rtmp://a_b.example.org./live/instance", "rtmp://a_b.example.org/live/instance"),
            ("rtmp://203.0.113.7:1/a", "rtmp://203.0.113.7:1/a"),
            ("rtmp://[2606:4700::1111]:65535/a", "rtmp://[2606:4700::1111]:65535/a"),
            ("rtmp://[::1]/a", "rtmp://[::1]/a"),
            ("rtmp://example.0a/a", "rtmp://example.0a/a"),
        ] {
            let read = Destination::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(read.to_string(), written, "{url}");
            assert_eq!(Destination::parse(written).unwrap(), read, "{url}");
        }
    }

    #[test]
    fn invalid_server_urls_are_refused_without_being_quoted() {
        for bad in [
            "",
            "live.twitch.tv/app",
            "http://secret.org/app",
            "rtmpt://secret.org/app",
            "rtmp:/secret.org/app",
            "rtmp://secret.org",
            "rtmp://secret.org/",
            "rtmp:///app",
            "rtmp://user:secret@example.org/app",
            "rtmp://secret@example.org/app",
            "rtmp://secret.org/app?x=secret",
            "rtmp://secret.org/app#secret",
            "rtmp://secret.org/a b",
            "rtmp://secret.org/a\nb",
            "rtmp://secret.org/\u{e4}",
            "rtmp://s\u{e4}cret.org/app",
            "rtmp://secret..org/app",
            "rtmp://secret org/app",
            "rtmp://%73ecret.org/app",
            "rtmp://secret.org:0/app",
            "rtmp://secret.org:65536/app",
            "rtmp://secret.org:/app",
            "rtmp://secret.org:+1/app",
            "rtmp://secret.org:1:2/app",
            "rtmp://[::1/app",
            "rtmp://[::1]secret/app",
            "rtmp://[secret]/app",
            "rtmp://[fe80::1%25eth0]/app",
            "rtmp://::1/app",
            "rtmp://127.1/app",
            "rtmp://0x7f.0.0.1/app",
            "rtmp://0x7f000001/app",
            "rtmp://2130706433/app",
            "rtmp://0177.0.0.1/app",
            "rtmp://1.2.3.4.5/app",
            "rtmp://256.1.1.1/app",
            &format!("rtmp://secret.org/{}", "x".repeat(MAX_URL)),
            &format!("rtmp://{}/app", "secret.".repeat(40)),
            &format!("rtmp://{}.org/app", "x".repeat(64)),
        ] {
            let refused = Destination::parse(bad).expect_err(bad);
            assert_eq!(refused.code, Some(ErrorCode::InvalidRequest), "{bad}");
            assert!(!format!("{refused:#}").contains("secret"), "{bad}: {refused:#}");
        }
    }

    #[test]
    fn private_hosts_are_detected_without_dns() {
        for (url, private) in [
            ("rtmp://127.0.0.1/a", true),
            ("rtmp://10.1.2.3/a", true),
            ("rtmp://[::ffff:8.8.8.8]/a", true),
            ("rtmp://LOCALHOST/a", true),
            ("rtmp://localhost./a", true),
            ("rtmp://x.localhost/a", true),
            ("rtmp://localhost.example.org/a", false),
            ("rtmp://8.8.8.8/a", false),
        ] {
            assert_eq!(Destination::parse(url).unwrap().is_private(), private, "{url}");
        }
    }

    #[test]
    fn keys_are_checked_and_never_quoted() {
        for good in ["k", "live_1?bandwidthtest=true&x=#1", &"x".repeat(MAX_KEY)] {
            assert!(check_key(good).is_ok(), "{good}");
        }
        for bad in ["", "secret key", "secret\n", "secret\0", "s\u{e4}cret", &"secret".repeat(100)] {
            assert!(!format!("{:#}", check_key(bad).expect_err(bad)).contains("secret"));
        }
    }

    #[test]
    fn names_are_path_segments() {
        for good in ["twitch", " My channel ", "\u{8a9e}", "a.b", "..."] {
            assert!(connection_name(good).is_ok(), "{good}");
        }
        for bad in ["", " ", ".", "..", " .. ", "a/b", "a\\b", "a\nb", &"x".repeat(256)] {
            assert!(connection_name(bad).is_err(), "{bad:?}");
        }
    }
}
