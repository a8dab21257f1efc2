//! Settings of a controller among several over one database.

use url::Url;

use crate::config::Config;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::database::{Database, PostgresAddress};

impl Config {
    /// Returns the database that several controllers share; `None` for an only controller.
    ///
    /// # Errors
    /// `Internal`, with the setting and the remedy, when `store.address` is no origin, or other settings exclude it; those
    /// of [`Self::database`].
    pub fn shared_database(&self) -> Result<Option<PostgresAddress>> {
        let address = &self.store.address;
        if address.is_empty() {
            return Ok(None);
        }
        let refused = |why: &str| Err(Error::failed(format!("configuration: store.address {why}")));
        let Database::Postgres(database) = self.database()? else {
            return refused("needs store.url: several controllers share a database of PostgreSQL");
        };
        if !is_origin(address) {
            return refused("must be the origin of this controller, such as http://10.0.0.5:8700");
        }
        if self.host.is_used() {
            return refused("needs an empty host.socket: the host helper makes computers on one host alone");
        }
        if self.trusted_proxies.is_empty() {
            return refused(
                "needs trusted_proxies: name the addresses of the other controllers, which forward requests to this one",
            );
        }
        Ok(Some(database))
    }
}

/// Whether a text is scheme, host and port of an HTTP server, and nothing else.
fn is_origin(text: &str) -> bool {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.is_some_and(|url| text == url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HostHelper, StoreSettings};

    #[test]
    fn an_address_is_an_origin_and_needs_what_several_controllers_need() {
        let url = "postgres://hotdesk@localhost/hotdesk";
        for (address, url, proxies, socket, reason) in [
            ("", "", "", "", None),
            ("", url, "", "/run/helper", None),
            ("http://10.0.0.5:8700", url, "10.0.0.0/24", "", None),
            ("https://one.example.org", url, "10.0.0.6", "", None),
            ("http://10.0.0.5:8700", "", "10.0.0.6", "", Some("store.url")),
            ("http://10.0.0.5:8700", url, "", "", Some("trusted_proxies")),
            ("http://10.0.0.5:8700", url, "10.0.0.6", "/run/helper", Some("host.socket")),
            ("10.0.0.5:8700", url, "10.0.0.6", "", Some("must be the origin")),
            ("http://10.0.0.5:8700/", url, "10.0.0.6", "", Some("must be the origin")),
            ("http://10.0.0.5:8700/api", url, "10.0.0.6", "", Some("must be the origin")),
            ("http://me@10.0.0.5:8700", url, "10.0.0.6", "", Some("must be the origin")),
            ("ftp://10.0.0.5", url, "10.0.0.6", "", Some("must be the origin")),
        ] {
            let config = Config {
                store: StoreSettings {
                    url: url.to_owned(),
                    address: address.to_owned(),
                    ..StoreSettings::default()
                },
                trusted_proxies: proxies.to_owned(),
                host: HostHelper { socket: socket.into(), ..HostHelper::default() },
                ..Config::default()
            };
            match (config.shared_database(), reason) {
                (Ok(found), None) => assert_eq!(found.is_some(), !address.is_empty(), "{address}"),
                (Err(error), Some(reason)) => assert!(error.message.contains(reason), "{}", error.message),
                (found, _) => panic!("{address}: {found:?}"),
            }
        }
    }
}
