//! How are API keys made and looked up? By SHA-256 only; the text is shown once (access.md A1-A5).

use sha2::{Digest, Sha256};

use hotdesk_base::hex::hex;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::api_key;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::Store;
use hotdesk_store::accounts::Holder;

/// The address of the account that the first start makes; it is a label, nothing is ever sent there.
const OPERATOR_EMAIL: &str = "operator@localhost";

/// Makes the operator's account and its key on the very first start.
///
/// # Errors
/// When the store fails.
pub async fn first_key(store: &Store) -> Result<Option<Secret>> {
    let key = fresh();
    let made = store
        .first_account(AccountId::random(), OPERATOR_EMAIL, &digest(key.reveal()), last_four(&key))
        .await?;
    Ok(made.then_some(key))
}

/// A new key's text.
pub fn fresh() -> Secret {
    Secret::new(api_key::assemble(Secret::random(api_key::RANDOM_CHARACTERS).reveal()))
}

/// The last four characters, to recognise a key by.
pub fn last_four(key: &Secret) -> &str {
    let text = key.reveal();
    &text[text.len() - 4..]
}

/// SHA-256 of a key, hex. Keys carry 178 random bits, so a fast hash is enough and a slow one a lever against us.
pub fn digest(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

/// Who holds a key. A key with a wrong checksum is refused without a look-up.
///
/// # Errors
/// `Unauthenticated` when nobody does; or the store fails.
pub async fn holder(store: &Store, key: &str) -> Result<Holder> {
    let unknown = || Error::unauthenticated("Invalid API key");
    if !api_key::well_formed(key) {
        return Err(unknown());
    }
    store.holder(&digest(key)).await.map_err(away)?.ok_or_else(unknown)
}

/// A credential that could not be checked is never a wrong one (access.md A10): 503, not 401 or 500.
pub(crate) fn away(error: Error) -> Error {
    Error::unavailable("Service temporarily unavailable").retry_after(5).context(error)
}
