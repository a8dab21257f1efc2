//! Encryption of the API's connections: TLS of its own, a proxy's, or none.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, secret_file};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::serve::CertificateFiles;

/// TLS of the API's listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate and those of intermediate authorities; empty: no TLS.
    pub certificate_file: PathBuf,
    /// PEM file (mode 0600) with its private key.
    pub key_file: PathBuf,
}

impl Config {
    /// The certificate of the listener; `None` for plain HTTP.
    ///
    /// # Errors
    /// `Internal`, with the reason and the remedy: one of the files without the other, `public_url` is not an https
    /// origin, other users can read the key, or keys and desktops would cross a network unencrypted.
    pub fn certificate_files(&self) -> Result<Option<CertificateFiles>> {
        let refused = |what: String| Err(Error::failed(format!("configuration: {what}")));
        let TlsSettings { certificate_file: certificate, key_file: key } = &self.tls;
        match (certificate.as_os_str().is_empty(), key.as_os_str().is_empty()) {
            (true, true) if self.may_be_plain() => Ok(None),
            (true, true) => refused(format!(
                "listen {} would send keys and desktops unencrypted: set [tls], or name the proxy that has the \
                 certificate in trusted_proxies, or set web.plain_http = true",
                self.listen
            )),
            (false, false) if !self.public_url.starts_with("https://") => refused(
                "[tls] needs public_url, the https:// origin whose name is in the certificate".to_owned(),
            ),
            (false, false) => {
                secret_file::check_private("tls.key_file", key)?;
                Ok(Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() }))
            }
            (true, false) | (false, true) => {
                refused("tls.certificate_file and tls.key_file belong together: set both".to_owned())
            }
        }
    }

    /// Whether plain HTTP stays on this machine, is behind a proxy, or is asked for.
    fn may_be_plain(&self) -> bool {
        self.listen.ip().is_loopback() || !self.trusted_proxies.is_empty() || self.web.plain_http
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn plain_http_leaves_the_machine_only_when_asked_for() {
        for (listen, proxies, plain_http, accepted) in [
            ("127.0.0.1:1", "", false, true),
            ("[::1]:1", "", false, true),
            ("0.0.0.0:1", "", false, false),
            ("192.0.2.1:1", "", false, false),
            ("[::]:1", "", false, false),
            ("192.0.2.1:1", "192.0.2.2", false, true),
            ("192.0.2.1:1", "", true, true),
        ] {
            let mut config = Config { listen: listen.parse().unwrap(), ..Config::default() };
            config.trusted_proxies = proxies.to_owned();
            config.web.plain_http = plain_http;
            let found = config.certificate_files();
            assert_eq!(found.is_ok(), accepted, "{listen} {proxies} {plain_http}: {found:?}");
        }
    }

    #[test]
    fn tls_needs_both_files_a_private_key_and_an_https_origin() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key.pem");
        std::fs::write(&key, "").unwrap();
        let refused = |certificate: &str, key: &str, url: &str| {
            let tls = TlsSettings { certificate_file: certificate.into(), key_file: key.into() };
            let config = Config { tls, public_url: url.to_owned(), ..Config::default() };
            config.certificate_files().err().map(|error| error.to_string() + &error.message)
        };
        let (path, url) = (key.to_str().unwrap(), "https://desk.example.org");
        let says = |refusal: Option<String>, what: &str| {
            assert!(refusal.unwrap_or_default().contains(what), "{what}")
        };
        says(refused("/c.pem", "", url), "set both");
        says(refused("", path, url), "set both");
        says(refused("/c.pem", path, "http://desk.example.org"), "public_url");
        says(refused("/c.pem", path, ""), "public_url");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused("/c.pem", path, url).is_some(), "other users can read the key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(refused("/c.pem", path, url), None);
    }
}
