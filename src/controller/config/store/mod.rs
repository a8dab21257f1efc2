//! Settings of the database, and its opening.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod secrets;
mod several;

pub use secrets::{EncryptionSettings, SecretSettings};

use super::{Config, secret_file};
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::database::{Access, Database, PostgresAddress};
use hotdesk_store::{Store, default_key_file};

/// Database of the service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// PostgreSQL database without its password, such as `postgres://hotdesk@db.example.org/hotdesk`; empty: SQLite in the
    /// data folder.
    pub url: String,
    /// File (mode 0600) with the password.
    pub password_file: PathBuf,
    /// PEM file with the authority of the server's certificate; empty: the authorities of the system.
    pub ca_file: PathBuf,
    /// URL at which other controllers over the database reach this one, such as `http://10.0.0.5:8700`; empty: this is the
    /// only controller.
    pub address: String,
}

impl StoreSettings {
    /// Whether the database is a file of the data folder.
    pub fn is_embedded(&self) -> bool {
        self.url.is_empty()
    }

    /// Whether this controller is one of several.
    pub fn is_shared(&self) -> bool {
        !self.address.is_empty()
    }
}

impl Config {
    /// Returns the configured database.
    ///
    /// # Errors
    /// Those of [`PostgresAddress::parse`], and `Internal` when the password cannot be read.
    pub fn database(&self) -> Result<Database> {
        let StoreSettings { url, password_file, ca_file, address: _ } = &self.store;
        if self.store.is_embedded() {
            return Ok(Database::Sqlite(self.store_file()));
        }
        let password = secret_file::read_any("store.password_file", password_file)?;
        let names = ["configuration: store.url", "store.password_file"];
        PostgresAddress::parse(names, url, password, ca_file).map(Database::Postgres)
    }

    /// Opens the database with the configured key file.
    ///
    /// # Errors
    /// Those of [`Self::database`] and [`Store::open_database`].
    pub async fn open_store(&self, access: Access) -> Result<Store> {
        Store::open_database(&self.database()?, &self.key_file(), access).await
    }

    /// The key file of the database: the configured one, else the one beside a SQLite file.
    pub fn key_file(&self) -> PathBuf {
        let key = &self.secrets.key_file;
        if key.as_os_str().is_empty() { default_key_file(&self.store_file()) } else { key.clone() }
    }

    /// Refuses a new database of PostgreSQL for a data folder that a service has used: a controller removes machines that
    /// its database does not name.
    ///
    /// # Errors
    /// `Internal` with a text for people; those of the store.
    pub async fn check_new_store(&self, store: &Store) -> Result<()> {
        let is_used = self.store_dir().join(self.store_mark()).exists();
        if self.store.is_embedded() || !is_used || !store.is_new().await? {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{} is a new database, but {} has the files of a service, whose computers would be removed: correct store.url, \
             or copy the service's database there (`hotdesk store copy`)",
            self.database()?,
            self.store_dir().display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_default_is_the_file_and_a_url_has_its_password_apart() {
        let config = Config { data_dir: "/nowhere".into(), ..Config::default() };
        assert!(matches!(config.database().unwrap(), Database::Sqlite(file) if file.ends_with("hotdesk.db")));

        let folder = tempfile::tempdir().unwrap();
        let password_file = folder.path().join("password");
        fs::write(&password_file, "hunter2\n").unwrap();
        fs::set_permissions(&password_file, fs::Permissions::from_mode(0o600)).unwrap();
        let with = |url: &str| {
            let store = StoreSettings {
                url: url.to_owned(),
                password_file: password_file.clone(),
                ..StoreSettings::default()
            };
            Config { store, ..Config::default() }
        };
        let config = with("postgres://desk@localhost/desk");
        let printed = serde_json::to_string(&config).unwrap();
        let database = config.database().unwrap();
        assert!(!format!("{config:?} {database:?} {database} {printed}").contains("hunter2"));
        let refused = with("postgres://desk:hunter2@localhost/desk").database().unwrap_err().message;
        assert!(
            refused.contains("store.url contains a password") && !refused.contains("hunter2"),
            "{refused}"
        );
        fs::set_permissions(&password_file, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = format!("{:#}", with("postgres://desk@localhost/desk").database().unwrap_err());
        assert!(refused.contains("store.password_file") && refused.contains("chmod 0600"), "{refused}");
    }
}
