//! API keys: creation, look-up, listing and deletion.
//!
//! Only the SHA-256 of a key is stored; its text is shown once, A1 to A5 (docs/authentication-rules.md).

use sha2::{Digest, Sha256};

use super::credential_uses::CredentialUses;
use crate::audit;
use crate::computers::directory::Directory;
use hotdesk_base::hex::hex;
use hotdesk_base::ids::{AccountId, KeyId};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::AuditOutcome;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{self, Caller, Credential, Role, Target};
use hotdesk_domain::identity::api_key;
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::identity::accounts::{KeyOwner, NewKey};
use hotdesk_store::identity::api_keys::ApiKey;
use hotdesk_wire::identity::api_key::ApiKey as Record;

/// Address of the first account. It is a label; no mail is sent there.
const OPERATOR_EMAIL: &str = "operator@localhost";

/// API keys.
///
/// A caller manages its account's keys; a scoped key those of its workspace; a workspace's owner and admins
/// all keys that are scoped to it, A14 (docs/authentication-rules.md).
pub struct Keys {
    store: Store,
    directory: Directory,
    audit: audit::Log,
    uses: CredentialUses,
}

impl Keys {
    /// Creates the service of the stored keys.
    pub fn new(store: Store, directory: Directory, audit: audit::Log, uses: CredentialUses) -> Self {
        Self { store, directory, audit, uses }
    }

    /// Creates a key, account-wide or for one workspace. Its text is only in the response.
    ///
    /// # Errors
    /// `Invalid` for an invalid name; `NotFound` or `Forbidden` for a workspace that the caller may not
    /// change; `Forbidden` when a scoped key asks for an account-wide one, and past [`api_key::MAX_KEYS`].
    pub async fn mint(
        &self,
        caller: &Caller,
        name: &str,
        workspace: Option<&str>,
    ) -> Result<(ApiKey, Secret)> {
        let workspace = match workspace.filter(|id| !id.is_empty()) {
            Some(id) => Some(self.directory.find_workspace(caller, id).await?.id),
            None => {
                access::check_account_wide(caller, "make account-wide keys")?;
                None
            }
        };
        let name = Name::parse(name)?;
        let text = generate();
        let new = NewKey {
            account: caller.account,
            workspace,
            name: name.as_str(),
            digest: &digest(text.reveal()),
            last_four: last_four(&text),
        };
        // Earlier audit entries must be stored before this one.
        self.audit.write().await?;
        let key = self.store.mint_key(&new, audit::entry_for_transaction(AuditOutcome::CREATED)).await?;
        audit::mark_stored();
        Ok((key, text))
    }

    /// Returns the keys that a caller may see, oldest first: those of its account, or those of one workspace.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for that workspace.
    pub async fn visible(&self, caller: &Caller, workspace: Option<&str>) -> Result<Vec<ApiKey>> {
        let own = caller.scope.as_ref().map(|(id, _)| id.to_string());
        let requested = workspace.filter(|id| !id.is_empty()).map(str::to_owned).or(own);
        let Some(requested) = requested else { return self.store.keys_of(caller.account).await };
        let workspace = self.directory.find_workspace(caller, &requested).await?;
        let role = self.directory.admit_to(caller, workspace.id, &workspace.name, workspace.account).await?;
        let mut found = self.store.keys_to(workspace.id).await?;
        found.retain(|key| key.account == caller.account || role >= Role::Admin);
        Ok(found)
    }

    /// Deletes a key. Its next request is refused, and its requests in progress end. The audit entry gets
    /// this outcome.
    ///
    /// # Errors
    /// `NotFound` ("Key not found"); `Forbidden` for a key that the caller may not delete.
    pub async fn delete(&self, caller: &Caller, id: &str, outcome: AuditOutcome) -> Result<()> {
        let unknown = || Error::not_found("Key not found");
        let id: KeyId = id.parse().map_err(|_| unknown())?;
        let key = self.store.key(id).await?.ok_or_else(unknown)?;
        self.check(caller, &key).await?;
        self.audit.write().await?;
        let removed = self.store.remove_key(id, audit::entry_for_transaction(outcome)).await?;
        if !removed {
            return Err(unknown());
        }
        audit::mark_stored();
        Ok(())
    }

    async fn check(&self, caller: &Caller, key: &ApiKey) -> Result<()> {
        let own = key.account == caller.account;
        match &key.workspace {
            None if own => access::check_account_wide(caller, "delete account-wide keys"),
            None => Err(Error::forbidden("Access denied")),
            // The creator may delete it, whatever its role is now.
            Some(workspace) if own => {
                audit::set_workspace(workspace.id, workspace.owner, Some(Role::Owner));
                let target = Target { id: workspace.id, name: &workspace.name, role: Some(Role::Owner) };
                access::check(caller, &target).map(|_| ())
            }
            Some(workspace) => {
                let role =
                    self.directory.admit_to(caller, workspace.id, &workspace.name, workspace.owner).await?;
                access::check_role(role, Role::Admin)
            }
        }
    }

    /// Converts a key to its API form, without its text.
    pub fn record(&self, key: ApiKey) -> Record {
        let scope = if key.workspace.is_some() { "workspace" } else { "account" };
        Record {
            id: key.id.to_string(),
            name: key.name,
            prefix: api_key::PREFIX.to_owned(),
            last_four: key.last_four,
            scope: scope.to_owned(),
            workspace_id: key.workspace.map(|workspace| workspace.id.to_string()),
            created_at: key.created_at.iso8601(),
            last_used_at: self.uses.last(Credential::Key(key.id), key.last_used_at).map(UnixMillis::iso8601),
        }
    }
}

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

/// Converts a database failure to 503: a credential that cannot be checked is not wrong, A10
/// (docs/authentication-rules.md).
pub(crate) fn unavailable_store(error: Error) -> Error {
    Error::unavailable("Service temporarily unavailable").retry_after(5).context(error)
}
