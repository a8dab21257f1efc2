//! Public SSH keys of accounts: adding, listing, removal, and which of them open a computer.
//!
//! A public key gives no access by itself: a connection also needs a credential of its account that can use the
//! computer.

use crate::audit;
use hotdesk_base::ids::{SshKeyId, WorkspaceId};
use hotdesk_domain::audit::AuditOutcome;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{self, Caller};
use hotdesk_domain::identity::ssh_key::SshPublicKey;
use hotdesk_domain::name::Name;
use hotdesk_store::Store;
use hotdesk_store::identity::ssh_keys::{NewSshKey, SshKey};

/// SSH keys. A caller manages those of its account; a scoped key those that were added for its workspace.
pub struct SshKeys {
    store: Store,
    audit: audit::Log,
}

impl SshKeys {
    /// Creates the service of the stored keys.
    pub fn new(store: Store, audit: audit::Log) -> Self {
        Self { store, audit }
    }

    /// Adds a key. A key that a scoped API key adds opens only computers of that workspace.
    ///
    /// # Errors
    /// `Invalid` for an invalid name or key; those of [`Store::add_ssh_key`].
    pub async fn add(&self, caller: &Caller, name: Option<&str>, public_key: &str) -> Result<SshKey> {
        let key = SshPublicKey::parse(public_key)?;
        let name = match name {
            Some(name) => Name::parse(name)?,
            // A comment may be empty or too long for a name.
            None => Name::parse(&key.comment).or_else(|_| Name::parse(&key.fingerprint))?,
        };
        let workspace = caller.scope.as_ref().map(|(id, _)| *id);
        let new = NewSshKey { account: caller.account, workspace, name: name.as_str(), key: &key };
        // Earlier audit entries must be stored before this one.
        self.audit.write().await?;
        let key = self.store.add_ssh_key(&new, audit::entry_for_transaction(AuditOutcome::CREATED)).await?;
        audit::mark_stored();
        Ok(key)
    }

    /// Returns the keys that a caller may manage, oldest first.
    ///
    /// # Errors
    /// Those of [`Store::ssh_keys_of`].
    pub async fn visible(&self, caller: &Caller) -> Result<Vec<SshKey>> {
        let mut keys = self.store.ssh_keys_of(caller.account).await?;
        keys.retain(|key| may_manage(caller, key));
        Ok(keys)
    }

    /// Removes a key. It opens no further connection; open ones go on.
    ///
    /// # Errors
    /// `NotFound` ("Key not found"); `Forbidden` for a key that the caller may not manage.
    pub async fn delete(&self, caller: &Caller, id: &str) -> Result<()> {
        let unknown = || Error::not_found("Key not found");
        let id: SshKeyId = id.parse().map_err(|_| unknown())?;
        let key = self.store.ssh_key(id).await?.ok_or_else(unknown)?;
        if key.account != caller.account {
            return Err(Error::forbidden("Access denied"));
        }
        if !may_manage(caller, &key) {
            access::check_account_wide(caller, "delete this SSH key")?;
        }
        self.audit.write().await?;
        let removed =
            self.store.remove_ssh_key(id, audit::entry_for_transaction(AuditOutcome::CHANGED)).await?;
        if !removed {
            return Err(unknown());
        }
        audit::mark_stored();
        Ok(())
    }

    /// Returns the public keys of the caller's account that open computers of a workspace.
    ///
    /// # Errors
    /// `Conflict` (`ssh_key_missing`) when there are none.
    pub async fn opening(&self, caller: &Caller, workspace: WorkspaceId) -> Result<Vec<String>> {
        let mut keys = self.store.ssh_keys_of(caller.account).await?;
        keys.retain(|key| key.workspace.is_none_or(|only| only == workspace));
        if keys.is_empty() {
            let message = "The account has no SSH key: add one with `hotdesk ssh-keys add ~/.ssh/id_ed25519.pub` \
                 or POST /keys/ssh";
            return Err(Error::conflict(message).code(ErrorCode::SshKeyMissing));
        }
        Ok(keys.into_iter().map(|key| key.public_key).collect())
    }
}

/// Whether a caller may list and remove a key.
fn may_manage(caller: &Caller, key: &SshKey) -> bool {
    let in_scope = caller.scope.as_ref().is_none_or(|(only, _)| key.workspace == Some(*only));
    key.account == caller.account && in_scope
}
