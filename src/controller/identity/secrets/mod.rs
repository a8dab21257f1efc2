//! Secrets of accounts and workspaces for their computers (docs/api/secrets.md).
//!
//! Admins and owners set and delete the secrets of a workspace; members list and use them; viewers see none.

use crate::audit;
use crate::computers::directory::Directory;
use crate::computers::fleet::Fleet;
use hotdesk_base::ids::{AccountId, WorkspaceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditOutcome;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::{Caller, Role};
use hotdesk_domain::secret::{LaunchSecrets, SecretName, check_value, may_use_account_secrets};
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::secrets::{SecretOwner, StoredSecret, UsableSecrets};

mod sync;
mod typing;

/// Stored secrets; cheap to clone.
#[derive(Clone)]
pub struct Secrets {
    store: Store,
    directory: Directory,
    fleet: Fleet,
    audit: audit::Log,
}

impl Secrets {
    /// Creates the service of the stored secrets.
    pub fn new(store: Store, directory: Directory, fleet: Fleet, audit: audit::Log) -> Self {
        Self { store, directory, fleet, audit }
    }

    /// Returns the secrets of a workspace, or of the caller's account, sorted by name and without values. A
    /// scoped credential always means its workspace.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for a workspace of which the caller is no member.
    pub async fn list(&self, caller: &Caller, workspace: Option<&str>) -> Result<Vec<StoredSecret>> {
        let owner = self.owner(caller, workspace, Role::Member).await?;
        self.store.secrets_of(owner).await
    }

    /// Returns one of these secrets.
    ///
    /// # Errors
    /// Those of [`Self::list`]; `Invalid` for an invalid name; `NotFound` (`secret_not_found`).
    pub async fn get(&self, caller: &Caller, workspace: Option<&str>, name: &str) -> Result<StoredSecret> {
        let owner = self.owner(caller, workspace, Role::Member).await?;
        let name = SecretName::parse(name)?;
        self.store.secret(owner, &name).await?.ok_or_else(|| missing(&name))
    }

    /// Stores a secret, or replaces its value.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for a workspace that the caller does not administer; `Invalid` for an
    /// invalid name or value; those of [`Store::save_secret`].
    pub async fn save(
        &self,
        caller: &Caller,
        workspace: Option<&str>,
        name: &str,
        value: &Secret,
    ) -> Result<StoredSecret> {
        let owner = self.owner(caller, workspace, Role::Admin).await?;
        let name = SecretName::parse(name)?;
        check_value(value.reveal())?;
        // Earlier audit entries must be stored before this one.
        self.audit.write().await?;
        let entry = audit::entry_for_transaction(AuditOutcome::CHANGED);
        let (saved, _) = self.store.save_secret(owner, &name, value, entry).await?;
        audit::mark_stored();
        Ok(saved)
    }

    /// Deletes a secret. Computers that have it keep it until their next sync or boot.
    ///
    /// # Errors
    /// Those of [`Self::save`]; `NotFound` (`secret_not_found`).
    pub async fn delete(&self, caller: &Caller, workspace: Option<&str>, name: &str) -> Result<()> {
        let owner = self.owner(caller, workspace, Role::Admin).await?;
        let name = SecretName::parse(name)?;
        self.audit.write().await?;
        let entry = audit::entry_for_transaction(AuditOutcome::CHANGED);
        if !self.store.remove_secret(owner, &name, entry).await? {
            return Err(missing(&name));
        }
        audit::mark_stored();
        Ok(())
    }

    /// Returns which secrets a caller may use on a computer that it may change.
    pub fn usable(caller: &Caller, computer: &Computer) -> UsableSecrets {
        let account = may_use_account_secrets(caller, computer.owner).then_some(computer.owner);
        UsableSecrets { workspace: computer.workspace, account }
    }

    /// Returns what a new computer gets of a template's secrets, whose names are in lower case.
    ///
    /// # Errors
    /// `NotFound` (`secret_not_found`) for one that the caller may not use in the workspace.
    pub async fn for_launch(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        owner: AccountId,
        names: impl Iterator<Item = &str>,
    ) -> Result<LaunchSecrets> {
        let account = may_use_account_secrets(caller, owner);
        let usable = UsableSecrets { workspace, account: account.then_some(owner) };
        let names: Vec<SecretName> =
            names.map(|name| SecretName::parse(&name.to_ascii_uppercase())).collect::<Result<_>>()?;
        let stored = self.store.usable_secret_names(usable).await?;
        match names.iter().find(|name| !stored.contains(name)) {
            Some(name) => Err(missing(name)),
            None => Ok(LaunchSecrets { names, account }),
        }
    }

    /// Returns the values of all secrets that a caller may use on a computer, also of those that another one
    /// of the same name hides: an owner has at most 100.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or a value was changed by another program.
    pub async fn values(&self, caller: &Caller, computer: &Computer) -> Result<Vec<Secret>> {
        self.store.usable_secrets(Self::usable(caller, computer)).await
    }

    /// Returns the value of a secret.
    async fn value(&self, usable: UsableSecrets, name: &SecretName) -> Result<Secret> {
        self.store.usable_secret(usable, name).await?.ok_or_else(|| missing(name))
    }

    async fn owner(&self, caller: &Caller, workspace: Option<&str>, least: Role) -> Result<SecretOwner> {
        let scope = caller.scope.as_ref().map(|(id, _)| id.to_string());
        match workspace.filter(|id| !id.is_empty()).map(str::to_owned).or(scope) {
            Some(id) => {
                let (workspace, _) = self.directory.find_workspace_as(caller, &id, least).await?;
                Ok(SecretOwner::Workspace(workspace.id))
            }
            None => Ok(SecretOwner::Account(caller.account)),
        }
    }
}

fn missing(name: &SecretName) -> Error {
    let message = format!("There is no secret {name} here: set it with PUT /secrets/{name}");
    Error::not_found(message).code(ErrorCode::SecretNotFound)
}
