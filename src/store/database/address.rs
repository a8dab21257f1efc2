//! Address of a PostgreSQL database: a URL without a password, and the password apart from it.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use sqlx::ConnectOptions;
use sqlx::any::AnyConnectOptions;
use url::Url;

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Schemes of PostgreSQL's URLs (PostgreSQL manual, "Connection URIs").
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];
/// Values of `sslmode` without which a connection may be plain text.
const ENCRYPTED: [&str; 3] = ["require", "verify-ca", "verify-full"];

/// Address of a PostgreSQL database. Nothing that prints it prints the password.
#[derive(Clone, Debug)]
pub struct PostgresAddress {
    /// Without a password.
    url: Url,
    password: Option<Secret>,
}

impl PostgresAddress {
    /// Whether a text has the scheme of PostgreSQL's URLs.
    pub fn has_scheme(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
    }

    /// Reads a URL such as `postgres://hotdesk@db.example.org/hotdesk`, or
    /// `postgres://hotdesk@%2Fvar%2Frun%2Fpostgresql/hotdesk` for a Unix socket. `setting` and `password_setting` are
    /// what errors name. `ca_file` has the authority of the server's certificate; empty: those of the system.
    ///
    /// A connection to another machine is encrypted, and the server's certificate and name are checked unless `sslmode`
    /// asks for less.
    ///
    /// # Errors
    /// `Internal`, with a sentence that does not quote the URL, when it is malformed, contains a password, names no host
    /// or no database, has an unknown parameter, or would cross a network unencrypted.
    pub fn parse(
        [setting, password_setting]: [&str; 2],
        text: &str,
        password: Option<Secret>,
        ca_file: &Path,
    ) -> Result<Self> {
        // No refusal quotes the text: it may contain a password.
        let refused = |what: &str| Error::failed(format!("{setting} {what}"));
        let url = Url::parse(text).ok().filter(|url| SCHEMES.contains(&url.scheme()));
        let mut url =
            url.ok_or_else(|| refused("is no URL such as postgres://hotdesk@db.example.org/hotdesk"))?;
        let (mut host, mut mode) = (url.host_str().unwrap_or_default().to_owned(), None);
        let mut has_password = url.password().is_some();
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "host" => host = value.into_owned(),
                "sslmode" => mode = Some(value.into_owned()),
                "password" => has_password = true,
                _ => return Err(refused("has a parameter besides host and sslmode: remove it")),
            }
        }
        if has_password {
            return Err(refused(&format!(
                "contains a password, which other programs could read: move it to a file with mode 0600 that {password_setting} names"
            )));
        }
        if url.path().trim_matches('/').is_empty() {
            return Err(refused(
                "names no database: add it, such as postgres://hotdesk@db.example.org/hotdesk",
            ));
        }
        // Else an environment variable would choose it.
        if host.is_empty() {
            return Err(refused(
                "names no host: add it, or the folder of the server's socket, such as %2Fvar%2Frun%2Fpostgresql",
            ));
        }
        if !is_local(&host) {
            match mode.as_deref() {
                None => {
                    url.query_pairs_mut().append_pair("sslmode", "verify-full");
                }
                Some(mode) if ENCRYPTED.contains(&mode) => {}
                Some(_) => {
                    return Err(refused(
                        "leads to another machine, where sslmode must be verify-full (the default), verify-ca or require",
                    ));
                }
            }
        }
        if !ca_file.as_os_str().is_empty() {
            url.query_pairs_mut().append_pair("sslrootcert", &ca_file.to_string_lossy());
        }
        url.query_pairs_mut().append_pair("application_name", "hotdesk");
        Ok(Self { url, password })
    }

    /// Returns the options of a connection. They contain the password and are never printed.
    pub(super) fn options(&self) -> sqlx::Result<AnyConnectOptions> {
        let mut url = self.url.clone();
        if let Some(password) = &self.password {
            url.query_pairs_mut().append_pair("password", password.reveal());
        }
        // Statement logs at debug level would hide the other log lines.
        Ok(AnyConnectOptions::from_url(&url)?.disable_statement_logging())
    }
}

/// The URL without its parameters.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        f.write_str(shown.as_str())
    }
}

/// Whether a host of a URL is this machine: the folder of a Unix socket, or an address of the loopback interface.
fn is_local(host: &str) -> bool {
    let is_folder = host.starts_with('/') || host.to_ascii_lowercase().starts_with("%2f");
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    is_folder || host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PostgresAddress> {
        let password = Some(Secret::new("p&s?w#rd%20"));
        PostgresAddress::parse(["store.url", "store.password_file"], text, password, Path::new(""))
    }

    fn parameter(address: &PostgresAddress, name: &str) -> Option<String> {
        let found = address.options().unwrap().database_url;
        found.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    }

    #[test]
    fn the_password_is_in_the_options_and_in_nothing_that_is_printed() {
        let address = parse("postgres://hotdesk@db.example.org:5433/desk").unwrap();
        assert_eq!(address.to_string(), "postgres://hotdesk@db.example.org:5433/desk");
        assert_eq!(parameter(&address, "password").unwrap(), "p&s?w#rd%20");
        for shown in [format!("{address}"), format!("{address:?}"), format!("{address:#?}")] {
            assert!(!shown.contains("p&s") && !shown.contains("w%23"), "{shown}");
        }
        for text in [
            "postgres://hotdesk:hunter2@db.example.org/desk",
            "postgres://hotdesk@db.example.org/desk?password=hunter2",
            "postgres://hotdesk@db.example.org/desk?passwd=hunter2",
            "postgres://hunter2",
            "mysql://hotdesk:hunter2@db.example.org/desk",
            "hunter2",
        ] {
            let refused = format!("{:#}", parse(text).unwrap_err());
            assert!(refused.contains("store.url") && !refused.contains("hunter2"), "{refused}");
        }
        let refused = parse("postgres://hotdesk:hunter2@db.example.org/desk").unwrap_err().message;
        assert!(refused.contains("store.password_file"), "{refused}");
    }

    #[test]
    fn a_connection_to_another_machine_is_encrypted() {
        for (text, mode) in [
            ("postgres://u@db.example.org/d", Some("verify-full")),
            ("postgres://u@10.0.0.7/d", Some("verify-full")),
            ("postgresql://u@db.example.org/d?sslmode=require", Some("require")),
            ("postgres://u@localhost/d", None),
            ("postgres://u@127.0.0.1/d", None),
            ("postgres://u@[::1]/d", None),
            ("postgres://u@%2Fvar%2Frun%2Fpostgresql/d", None),
            ("postgres:///d?host=/var/run/postgresql", None),
        ] {
            assert_eq!(parameter(&parse(text).unwrap(), "sslmode").as_deref(), mode, "{text}");
        }
        for text in [
            "postgres://u@db.example.org/d?sslmode=prefer",
            "postgres://u@db.example.org/d?sslmode=disable",
            "postgres://u@localhost/d?host=db.example.org&sslmode=allow",
        ] {
            assert!(parse(text).unwrap_err().message.contains("another machine"), "{text}");
        }
        assert!(parse("postgres:///d").unwrap_err().message.contains("no host"));
        assert!(parse("postgres://u@db.example.org").unwrap_err().message.contains("no database"));
    }

    #[test]
    fn a_certificate_authority_is_a_parameter() {
        let settings = ["--to", "--to-password-file"];
        let parse =
            |file: &str| PostgresAddress::parse(settings, "postgres://u@h.example/d", None, Path::new(file));
        let address = parse("/etc/hotdesk/ca.pem").unwrap();
        assert_eq!(parameter(&address, "sslrootcert").unwrap(), "/etc/hotdesk/ca.pem");
        assert_eq!(parameter(&address, "password"), None);
    }
}
