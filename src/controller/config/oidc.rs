//! Settings of the sign-in by an OpenID Connect provider.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The operator's OpenID Connect provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSettings {
    /// Its issuer, such as `https://id.example.org`; empty: nobody signs in by a provider.
    pub issuer: String,
    /// Id of this service at the provider.
    pub client_id: String,
    /// File (mode 0600) with the secret of that id; empty: the provider asks for none.
    pub client_secret_file: PathBuf,
    /// Name of the provider on pages: "Sign in with ...".
    pub name: String,
}

impl Default for OidcSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            client_secret_file: PathBuf::new(),
            name: "single sign-on".to_owned(),
        }
    }
}
