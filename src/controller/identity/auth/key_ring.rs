//! API key management.
//!
//! A caller manages its account's keys; a scoped key those of its workspace; a workspace's owner and admins
//! all keys that are scoped to it, A14 (docs/authentication-rules.md).

use axum::http::StatusCode;

use super::keys;
use crate::App;
use crate::audit;
use hotdesk_base::clock::iso8601;
use hotdesk_base::ids::KeyId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{self, Caller, Role, Target};
use hotdesk_domain::identity::api_key;
use hotdesk_domain::name::Name;
use hotdesk_store::identity::accounts::NewKey;
use hotdesk_store::identity::api_keys::ApiKey;
use hotdesk_wire::identity::api_key::ApiKey as Record;

impl App {
    /// Creates a key, account-wide or for one workspace. Its text is only in the response. The audit entry
    /// gets the status `answer`.
    ///
    /// # Errors
    /// `Invalid` for an invalid name; `NotFound` or `Forbidden` for a workspace that the caller may not
    /// change; `Forbidden` when a scoped key asks for an account-wide one, and past [`api_key::MAX_KEYS`].
    pub async fn mint_key(
        &self,
        caller: &Caller,
        name: &str,
        workspace: Option<&str>,
        answer: StatusCode,
    ) -> Result<(ApiKey, Secret)> {
        let workspace = match workspace.filter(|id| !id.is_empty()) {
            Some(id) => Some(self.find_workspace(caller, id).await?.id),
            None => {
                access::check_account_wide(caller, "make account-wide keys")?;
                None
            }
        };
        let name = Name::parse(name)?;
        let text = keys::generate();
        let digest = keys::digest(text.reveal());
        let new = NewKey {
            account: caller.account,
            workspace,
            name: name.as_str(),
            digest: &digest,
            last_four: keys::last_four(&text),
        };
        // Earlier audit entries must be stored before this one.
        self.write_audit().await?;
        let key = self.store.mint_key(&new, audit::entry_for_transaction(answer)).await?;
        audit::mark_stored();
        Ok((key, text))
    }

    /// Returns the keys that a caller may see, oldest first: those of its account, or those of one workspace.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for that workspace.
    pub async fn visible_keys(&self, caller: &Caller, workspace: Option<&str>) -> Result<Vec<ApiKey>> {
        let own = caller.scope.as_ref().map(|(id, _)| id.to_string());
        let requested = workspace.filter(|id| !id.is_empty()).map(str::to_owned).or(own);
        let Some(requested) = requested else { return self.store.keys_of(caller.account).await };
        let workspace = self.find_workspace(caller, &requested).await?;
        let role = self.admit_to(caller, workspace.id, &workspace.name, workspace.account).await?;
        let mut found = self.store.keys_to(workspace.id).await?;
        found.retain(|key| key.account == caller.account || role >= Role::Admin);
        Ok(found)
    }

    /// Deletes a key. Its next request is refused, and its requests in progress end.
    ///
    /// # Errors
    /// `NotFound` ("Key not found"); `Forbidden` for a key that the caller may not delete.
    pub async fn delete_key(&self, caller: &Caller, id: &str, answer: StatusCode) -> Result<()> {
        let unknown = || Error::not_found("Key not found");
        let id: KeyId = id.parse().map_err(|_| unknown())?;
        let key = self.store.key(id).await?.ok_or_else(unknown)?;
        self.check_key(caller, &key).await?;
        self.write_audit().await?;
        let removed = self.store.remove_key(id, audit::entry_for_transaction(answer)).await?;
        if !removed {
            return Err(unknown());
        }
        audit::mark_stored();
        Ok(())
    }

    async fn check_key(&self, caller: &Caller, key: &ApiKey) -> Result<()> {
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
                let role = self.admit_to(caller, workspace.id, &workspace.name, workspace.owner).await?;
                access::check_role(role, Role::Admin)
            }
        }
    }

    /// Converts a key to its API form, without its text.
    pub fn key_record(&self, key: ApiKey) -> Record {
        let scope = if key.workspace.is_some() { "workspace" } else { "account" };
        Record {
            id: key.id.to_string(),
            name: key.name,
            prefix: api_key::PREFIX.to_owned(),
            last_four: key.last_four,
            scope: scope.to_owned(),
            workspace_id: key.workspace.map(|workspace| workspace.id.to_string()),
            created_at: iso8601(key.created_at),
            last_used_at: self.key_uses.last(key.id, key.last_used_at).map(iso8601),
        }
    }
}
