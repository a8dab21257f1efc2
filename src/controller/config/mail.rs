//! Mail server of the operator, which sends links that verify addresses.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, secret_file};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Mail server. Without one, nobody checks the addresses of people.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpSettings {
    /// Host name; empty: no mail is sent.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Encryption of the connection.
    pub tls: SmtpTls,
    /// PEM file with the authority of the server's certificate; empty: the authorities of the system.
    pub ca_file: PathBuf,
    /// User name; empty: no authentication.
    pub user: String,
    /// File (mode 0600) with the password.
    pub password_file: PathBuf,
    /// Sender, such as `hotdesk <desk@example.org>`.
    pub from: String,
}

/// Encryption of the connection to the mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmtpTls {
    /// TLS after STARTTLS (RFC 3207), usually on port 587. Without it no mail is sent.
    #[default]
    Starttls,
    /// TLS from the first byte (RFC 8314), usually on port 465.
    Implicit,
    /// None, for a server on this machine.
    None,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self {
            host: String::new(),
            // Submission (RFC 6409).
            port: 587,
            tls: SmtpTls::default(),
            ca_file: PathBuf::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            from: String::new(),
        }
    }
}

impl Config {
    /// Checks the settings of the mail server, and returns its password, if it has one.
    ///
    /// # Errors
    /// `Internal`, with the setting and the remedy, when a setting is missing or invalid, or a password or link would
    /// cross a network unencrypted.
    pub fn check_smtp(&self) -> Result<Option<Secret>> {
        let refused = |what: &str| Err(Error::failed(format!("configuration: [smtp] {what}")));
        let smtp = &self.smtp;
        // Else the link would lead to the host that the request names, which may be somebody else's.
        if self.public_url.is_empty() {
            return refused("needs public_url: mailed links lead there");
        }
        if smtp.tls == SmtpTls::None && !is_loopback(&smtp.host) {
            return refused(
                "tls = \"none\" is for a server on this machine only: use \"starttls\" or \"implicit\"",
            );
        }
        if smtp.user.is_empty() != smtp.password_file.as_os_str().is_empty() {
            return refused("user and password_file belong together: set both");
        }
        secret_file::read_any("smtp.password_file", &smtp.password_file)
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_server_needs_a_public_url_encryption_and_a_whole_credential() {
        let refused = |url: &str, host: &str, tls: SmtpTls, user: &str| {
            let smtp =
                SmtpSettings { host: host.to_owned(), tls, user: user.to_owned(), ..SmtpSettings::default() };
            let config = Config { public_url: url.to_owned(), smtp, ..Config::default() };
            config.check_smtp().err().map(|error| error.message).unwrap_or_default()
        };
        let url = "https://desk.example.org";
        assert!(refused("", "mail.example.org", SmtpTls::Starttls, "").contains("public_url"));
        assert!(refused(url, "mail.example.org", SmtpTls::None, "").contains("this machine only"));
        assert!(refused(url, "mail.example.org", SmtpTls::Implicit, "ada").contains("password_file"));
        for (host, tls) in [
            ("mail.example.org", SmtpTls::Starttls),
            ("mail.example.org", SmtpTls::Implicit),
            ("localhost", SmtpTls::None),
            ("127.0.0.1", SmtpTls::None),
            ("::1", SmtpTls::None),
        ] {
            assert_eq!(refused(url, host, tls, ""), "", "{host} {tls:?}");
        }
    }
}
