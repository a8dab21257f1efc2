//! Which API keys may a caller make, see and delete? Its account's; a scoped key those of its workspace; a workspace's owner and
//! admins whatever reaches that workspace alone (access.md A14).

use axum::http::StatusCode;

use super::keys;
use crate::App;
use crate::audit;
use hotdesk_base::clock::iso8601;
use hotdesk_base::ids::KeyId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::{self, Caller, Role, Target};
use hotdesk_domain::api_key;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::name::Name;
use hotdesk_store::accounts::NewKey;
use hotdesk_store::keys::Key;
use hotdesk_wire::key::Key as Record;

impl App {
    /// Makes a key, account-wide or for one workspace; its text is nowhere but in the answer, whose status `answer` goes
    /// into the audit log with it.
    ///
    /// # Errors
    /// `Invalid` for a name; `Forbidden` for a workspace that the caller may not change, for an account-wide key of a
    /// scoped one, and past [`api_key::MAX_KEYS`].
    pub async fn mint_key(
        &self,
        caller: &Caller,
        name: &str,
        workspace: Option<&str>,
        answer: StatusCode,
    ) -> Result<(Key, Secret)> {
        let workspace = match workspace.filter(|id| !id.is_empty()) {
            Some(id) => Some(self.find_workspace(caller, id).await?.id),
            None => {
                access::check_account_wide(caller, "make account-wide keys")?;
                None
            }
        };
        let name = Name::parse(name)?;
        let text = keys::fresh();
        let digest = keys::digest(text.reveal());
        let new = NewKey {
            account: caller.account,
            workspace,
            name: name.as_str(),
            digest: &digest,
            last_four: keys::last_four(&text),
        };
        // Lines before this one stand before it.
        self.write_audit().await?;
        let key = self.store.mint_key(&new, audit::line(answer)).await?;
        audit::written();
        Ok((key, text))
    }

    /// The keys that a caller may see, oldest first: of its account, or those that reach one workspace alone.
    ///
    /// # Errors
    /// 404 and 403 for that workspace.
    pub async fn visible_keys(&self, caller: &Caller, workspace: Option<&str>) -> Result<Vec<Key>> {
        let own = caller.scope.as_ref().map(|(id, _)| id.to_string());
        let asked = workspace.filter(|id| !id.is_empty()).map(str::to_owned).or(own);
        let Some(asked) = asked else { return self.store.keys_of(caller.account).await };
        let workspace = self.find_workspace(caller, &asked).await?;
        let role = self.admit_to(caller, workspace.id, &workspace.name, workspace.account).await?;
        let mut found = self.store.keys_to(workspace.id).await?;
        found.retain(|key| key.account == caller.account || role >= Role::Admin);
        Ok(found)
    }

    /// Deletes a key: its next request is refused, and what goes on under it ends.
    ///
    /// # Errors
    /// 404 "Key not found"; 403 for a key that is not the caller's to delete.
    pub async fn delete_key(&self, caller: &Caller, id: &str, answer: StatusCode) -> Result<()> {
        let unknown = || Error::not_found("Key not found");
        let id: KeyId = id.parse().map_err(|_| unknown())?;
        let key = self.store.key(id).await?.ok_or_else(unknown)?;
        self.check_key(caller, &key).await?;
        self.write_audit().await?;
        let removed = self.store.remove_key(id, audit::line(answer)).await?;
        if !removed {
            return Err(unknown());
        }
        audit::written();
        Ok(())
    }

    async fn check_key(&self, caller: &Caller, key: &Key) -> Result<()> {
        let own = key.account == caller.account;
        match &key.workspace {
            None if own => access::check_account_wide(caller, "delete account-wide keys"),
            None => Err(Error::forbidden("Access denied")),
            // Whoever made it may delete it, whatever became of its role since.
            Some(workspace) if own => {
                audit::about(workspace.id, workspace.owner, Some(Role::Owner));
                let target = Target { id: workspace.id, name: &workspace.name, role: Some(Role::Owner) };
                access::check(caller, &target).map(|_| ())
            }
            Some(workspace) => {
                let role = self.admit_to(caller, workspace.id, &workspace.name, workspace.owner).await?;
                access::check_role(role, Role::Admin)
            }
        }
    }

    /// A key as it is shown: never its text.
    pub fn key_record(&self, key: Key) -> Record {
        let scope = if key.workspace.is_some() { "workspace" } else { "account" };
        Record {
            id: key.id.to_string(),
            name: key.name,
            prefix: api_key::PREFIX.to_owned(),
            last_four: key.last_four,
            scope: scope.to_owned(),
            workspace_id: key.workspace.map(|workspace| workspace.id.to_string()),
            created_at: iso8601(key.created_at),
            last_used_at: self.usage.last(key.id, key.last_used_at).map(iso8601),
        }
    }
}
