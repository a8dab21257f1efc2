//! Names of actors, as a reader may see them.

use crate::{Store, failed, id};
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Role;
use hotdesk_domain::identity::access::actor::Actor;

/// Who reads names, and where the actors acted.
#[derive(Clone, Copy, Debug)]
pub struct NameReader {
    /// The reading account.
    pub account: AccountId,
    /// Its role in the workspace.
    pub role: Role,
    /// The computer.
    pub computer: ComputerId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The owner of the workspace.
    pub owner: AccountId,
}

impl Store {
    /// Returns the name of a key or of an MCP client, the e-mail address of a person, or the title of a
    /// thread. `None` when it does not exist any more, has no name, or the reader may not see it: keys and
    /// clients are seen by their account, and by admins while that account has a role in the workspace;
    /// people by those who share the workspace with them. The computer says who acted, and its root may name
    /// anybody.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn actor_name(&self, actor: Actor, reader: &NameReader) -> Result<Option<String>> {
        let (select, actor_id) = match actor {
            Actor::Key(id) => ("SELECT name, account_id FROM api_keys WHERE id = $1", id.to_string()),
            Actor::Connection(id) => {
                ("SELECT client_name, account_id FROM oauth_grants WHERE id = $1", id.to_string())
            }
            Actor::Person(id) => ("SELECT email, id FROM accounts WHERE id = $1", id.to_string()),
            Actor::Thread(id) => ("SELECT title, computer_id FROM threads WHERE id = $1", id.to_string()),
            Actor::Password | Actor::Template => return Ok(None),
        };
        let row: Option<(Option<String>, String)> = sqlx::query_as(select)
            .bind(actor_id)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read the name of an actor"))?;
        let Some((name, of)) = row else { return Ok(None) };
        let is_visible = match actor {
            Actor::Key(_) | Actor::Connection(_) => {
                let account: AccountId = id(&of)?;
                account == reader.account
                    || (reader.role >= Role::Admin && self.has_role(reader, account).await?)
            }
            Actor::Person(account) => account == reader.account || self.has_role(reader, account).await?,
            Actor::Thread(_) => of == reader.computer.to_string(),
            Actor::Password | Actor::Template => false,
        };
        Ok(name.filter(|name| is_visible && !name.is_empty()))
    }

    /// Whether an account has a role in the workspace of a reader.
    async fn has_role(&self, reader: &NameReader, account: AccountId) -> Result<bool> {
        Ok(account == reader.owner || self.membership(reader.workspace, account).await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Access;
    use crate::database::fixture::TestDatabase;
    use hotdesk_base::ids::KeyId;

    #[tokio::test]
    async fn the_name_of_a_key_is_seen_by_its_account_and_by_admins_of_a_shared_workspace() {
        let database = TestDatabase::new();
        let store = database.store(Access::Shared).await;
        let [owner, holder] = [AccountId::random(), AccountId::random()];
        let (workspace, key) = (WorkspaceId::random(), KeyId::random());
        for statement in [
            format!("INSERT INTO accounts (id, email, created_at) VALUES ('{owner}', 'o@localhost', 1)"),
            format!("INSERT INTO accounts (id, email, created_at) VALUES ('{holder}', 'h@localhost', 1)"),
            format!(
                "INSERT INTO workspaces (id, account_id, name, name_folded, status, created_at, updated_at) \
                 VALUES ('{workspace}', '{owner}', 'w', 'w', 'active', 1, 1)"
            ),
            format!(
                "INSERT INTO api_keys (id, account_id, name, digest, last_four, created_at) \
                 VALUES ('{key}', '{holder}', 'production', 'd', '1234', 1)"
            ),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&store.pool).await.unwrap();
        }
        let seen = async |account: AccountId, role: Role| {
            let computer = ComputerId::random();
            let reader = NameReader { account, role, computer, workspace, owner };
            store.actor_name(Actor::Key(key), &reader).await.unwrap()
        };
        let name = Some("production".to_owned());
        // A computer whose root names a key that its owner has seen elsewhere.
        assert_eq!(seen(owner, Role::Owner).await, None);
        assert_eq!(seen(holder, Role::Viewer).await, name);
        store.set_member(workspace, holder, Role::Viewer).await.unwrap();
        assert_eq!(seen(owner, Role::Owner).await, name);
        assert_eq!(seen(AccountId::random(), Role::Admin).await, name);
        assert_eq!(seen(AccountId::random(), Role::Member).await, None);
    }
}
