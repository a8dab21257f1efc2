//! Settings of the Incus engine.

use std::path::PathBuf;

use hyper::Uri;
use serde::{Deserialize, Serialize};

use hotdesk_domain::computer::isolation::Isolation;

/// Port of an Incus server by default.
const PORT: u16 = 8443;
/// Hexadecimal digits of a SHA-256.
const FINGERPRINT_DIGITS: usize = 64;

/// An Incus server, or a cluster of them, that runs the computers of this controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IncusSettings {
    /// `https://HOST:PORT` of the server or of any member of its cluster, or the path of its unix socket on this host;
    /// empty: computers run on this host without Incus.
    pub url: String,
    /// PEM file of the client certificate that the server trusts; for `https`.
    pub certificate_file: PathBuf,
    /// PEM file (mode 0600) of its private key.
    pub key_file: PathBuf,
    /// SHA-256 of the server's certificate in hexadecimal digits; for `https`.
    pub fingerprint: String,
    /// Project of the instances.
    pub project: String,
    /// Storage pool of their disks.
    pub pool: String,
    /// Managed bridge of the computers; only `container.network` makes use of it.
    pub network: String,
    /// The isolations that computers may have, the default first (`engines.offered`).
    #[serde(skip)]
    pub offered: Vec<Isolation>,
    /// gVisor's runtime on this host, for the image of computers with isolation `sandbox` (`engines.runsc`).
    #[serde(skip)]
    pub runsc: String,
}

impl Default for IncusSettings {
    /// The project and the pool have the names that `incus admin init` gives them.
    fn default() -> Self {
        Self {
            url: String::new(),
            certificate_file: PathBuf::new(),
            key_file: PathBuf::new(),
            fingerprint: String::new(),
            project: "default".to_owned(),
            pool: "default".to_owned(),
            network: String::new(),
            offered: vec![Isolation::Shared],
            runsc: "runsc".to_owned(),
        }
    }
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A unix socket on this host.
    Unix(PathBuf),
    /// A host and a port, over TLS.
    Tls(String, u16),
}

impl IncusSettings {
    /// Whether computers run as Incus instances.
    pub fn is_used(&self) -> bool {
        !self.url.is_empty()
    }

    /// Checks the settings of a server that is used.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn check(&self) -> Result<(), String> {
        if let Address::Tls(..) = self.address()? {
            for (name, file) in [("certificate_file", &self.certificate_file), ("key_file", &self.key_file)] {
                if file.as_os_str().is_empty() {
                    return Err(format!("engines.incus.{name} must name a file for {}", self.url));
                }
            }
            let is_digest = self.fingerprint.len() == FINGERPRINT_DIGITS
                && self.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_digest {
                return Err(format!(
                    "engines.incus.fingerprint must have the {FINGERPRINT_DIGITS} hexadecimal digits of the \
                     SHA-256 of the server's certificate (`incus info` prints them)"
                ));
            }
        }
        for (name, value) in [("project", &self.project), ("pool", &self.pool)] {
            if value.is_empty() {
                return Err(format!("engines.incus.{name} must not be empty"));
            }
        }
        for (name, value) in [("project", &self.project), ("pool", &self.pool), ("network", &self.network)] {
            if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                return Err(format!(
                    "engines.incus.{name} may have letters, digits, dashes, dots and underscores, not {value:?}"
                ));
            }
        }
        Ok(())
    }

    /// The address in `url`.
    pub(crate) fn address(&self) -> Result<Address, String> {
        Address::parse(&self.url).ok_or_else(|| {
            format!("engines.incus.url must be https://HOST:PORT or the path of a socket, not {:?}", self.url)
        })
    }
}

impl Address {
    /// Reads `https://HOST:PORT` or the path of a socket.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        if url.starts_with('/') {
            return Some(Self::Unix(PathBuf::from(url)));
        }
        let uri: Uri = url.parse().ok()?;
        let is_plain = uri.scheme_str() == Some("https") && matches!(uri.path(), "" | "/");
        if !is_plain || uri.query().is_some() {
            return None;
        }
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        Some(Self::Tls(host.to_owned(), uri.port_u16().unwrap_or(PORT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> IncusSettings {
        IncusSettings { url: url.to_owned(), ..IncusSettings::default() }
    }

    #[test]
    fn the_server_has_a_socket_or_an_https_address() {
        let tls = |host: &str, port| Ok(Address::Tls(host.to_owned(), port));
        for (url, expected) in [
            ("/run/incus/unix.socket", Ok(Address::Unix("/run/incus/unix.socket".into()))),
            ("https://10.0.0.1:8443", tls("10.0.0.1", 8443)),
            ("https://incus.example", tls("incus.example", 8443)),
            ("https://[2001:db8::1]:9443/", tls("2001:db8::1", 9443)),
            ("http://10.0.0.1", Err(())),
            ("https://10.0.0.1/1.0", Err(())),
            ("incus.example", Err(())),
        ] {
            assert_eq!(settings(url).address().map_err(drop), expected, "{url}");
        }
    }

    #[test]
    fn a_server_over_tls_is_authenticated_on_both_sides() {
        assert!(!IncusSettings::default().is_used());
        assert_eq!(settings("/run/incus/unix.socket").check(), Ok(()));
        let bare = settings("https://incus.example");
        assert!(bare.check().unwrap_err().contains("certificate_file"));
        let files = IncusSettings { certificate_file: "/c".into(), key_file: "/k".into(), ..bare };
        assert!(files.check().unwrap_err().contains("fingerprint"));
        let whole = IncusSettings { fingerprint: "0a".repeat(32), ..files };
        assert_eq!(whole.check(), Ok(()));
        for (settings, field) in [
            (IncusSettings { fingerprint: "0g".repeat(32), ..whole.clone() }, "fingerprint"),
            (IncusSettings { project: String::new(), ..whole.clone() }, "project"),
            (IncusSettings { pool: "a b".to_owned(), ..whole.clone() }, "pool"),
            (IncusSettings { network: "desk0?x".to_owned(), ..whole }, "network"),
        ] {
            let refused = settings.check().unwrap_err();
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
