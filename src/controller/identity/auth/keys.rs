//! Creation and look-up of API keys.
//!
//! Only the SHA-256 of a key is stored; its text is shown once, A1 to A5 (docs/authentication-rules.md).

use sha2::{Digest, Sha256};

use hotdesk_base::hex::hex;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::api_key;
use hotdesk_store::Store;
use hotdesk_store::identity::accounts::KeyOwner;

/// Address of the first account. It is a label; no mail is sent there.
const OPERATOR_EMAIL: &str = "operator@localhost";

/// Creates the operator's account and its key at the first start. Returns the key, or `None` at later starts.
///
/// # Errors
/// `Internal` when the database fails.
pub async fn first_key(store: &Store) -> Result<Option<Secret>> {
    let key = generate();
    let made = store
        .create_first_account(AccountId::random(), OPERATOR_EMAIL, &digest(key.reveal()), last_four(&key))
        .await?;
    Ok(made.then_some(key))
}

/// Generates the text of a new key.
pub fn generate() -> Secret {
    Secret::new(api_key::assemble(Secret::random(api_key::RANDOM_CHARACTERS).reveal()))
}

/// Returns the last four characters, by which people recognise a key.
pub fn last_four(key: &Secret) -> &str {
    let text = key.reveal();
    &text[text.len() - 4..]
}

/// Returns the SHA-256 of a key in hex. Keys have 178 random bits, so a fast hash is sufficient, and a slow
/// one would help denial of service.
pub fn digest(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

/// Returns the holder of a key. A key with a wrong checksum is refused without a look-up.
///
/// # Errors
/// `Unauthenticated` when the key is unknown; `Unavailable` when the database fails.
pub async fn holder(store: &Store, key: &str) -> Result<KeyOwner> {
    let unknown = || Error::unauthenticated("Invalid API key");
    if !api_key::well_formed(key) {
        return Err(unknown());
    }
    store.key_owner(&digest(key)).await.map_err(unavailable_store)?.ok_or_else(unknown)
}

/// Converts a database failure to 503: a credential that cannot be checked is not wrong, A10
/// (docs/authentication-rules.md).
pub(crate) fn unavailable_store(error: Error) -> Error {
    Error::unavailable("Service temporarily unavailable").retry_after(5).context(error)
}
