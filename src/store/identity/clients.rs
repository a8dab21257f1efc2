//! Clients of an operator. Each has a workspace of its own and limits, which are checked in the transaction
//! that would exceed them.

use crate::identity::accounts::{NewKey, insert_key};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ClientId, ComputerId, FileId, KeyId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::clone::free_name;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::client::{BilledTo, ClientTerms};
use hotdesk_domain::name::Name;
use hotdesk_domain::plural::plural;

/// Record of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// The operator's account.
    pub account: AccountId,
    /// Its workspace; `None` after its removal.
    pub workspace: Option<WorkspaceId>,
    /// The operator's id for it; unique among the operator's clients.
    pub external_id: String,
    /// Its name.
    pub name: String,
    /// Its limits, and which side is billed.
    pub terms: ClientTerms,
    /// Number of computers in its workspace.
    pub computers: u32,
    /// Creation time.
    pub created_at: UnixMillis,
    /// Time of the last change.
    pub updated_at: UnixMillis,
}

row! {
    struct Row {
        id: String,
        account_id: String,
        workspace_id: Option<String>,
        external_id: String,
        name: String,
        max_computers: Option<i64>,
        monthly_ai_cap: Option<i64>,
        billed_to: String,
        computers: i64,
        created_at: i64,
        updated_at: i64,
    }
}

const SELECT: &str = "SELECT k.id, k.account_id, k.workspace_id, k.external_id, k.name, k.max_computers, k.monthly_ai_cap, \
                      k.billed_to, k.created_at, k.updated_at, (SELECT COUNT(*) FROM computers c WHERE \
                      c.workspace_id = k.workspace_id) AS computers FROM clients k ";

impl TryFrom<Row> for Client {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("client {} holds a bad {what}", row.id));
        let whole = |value: i64, what| u32::try_from(value).map_err(|_| bad(what));
        Ok(Self {
            id: id(&row.id)?,
            account: id(&row.account_id)?,
            workspace: row.workspace_id.as_deref().map(id).transpose()?,
            terms: ClientTerms {
                max_computers: row.max_computers.map(|most| whole(most, "max_computers")).transpose()?,
                monthly_ai_cap: row.monthly_ai_cap,
                billed_to: BilledTo::from_name(&row.billed_to).ok_or_else(|| bad("billed_to"))?,
            },
            computers: whole(row.computers, "number of computers")?,
            external_id: row.external_id,
            name: row.name,
            created_at: UnixMillis::new(row.created_at),
            updated_at: UnixMillis::new(row.updated_at),
        })
    }
}

fn unknown() -> Error {
    Error::not_found("Client not found")
}

impl Store {
    /// Creates a client with a workspace and a key (digest and last four characters) limited to it.
    ///
    /// # Errors
    /// `Conflict` (`EXTERNAL_ID_TAKEN`); those of
    /// [`Quota::admit`](hotdesk_domain::billing::quota::Quota::admit); `Forbidden` (`CLIENT_LIMIT`) when too
    /// many clients were removed; `Unavailable` or `Internal` when the store fails. Nothing is changed
    /// then, unless only the final read failed.
    pub async fn add_client(
        &self,
        account: AccountId,
        external_id: &str,
        name: &Name,
        terms: &ClientTerms,
        key: (&str, &str),
        plans: &Plans,
    ) -> Result<Client> {
        let mut write = self.write().await?;
        let (taken,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM clients WHERE account_id = $1 AND external_id = $2 AND removed_at IS NULL",
        )
        .bind(account.to_string())
        .bind(external_id)
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("look for a client"))?;
        if taken > 0 {
            return Err(Error::conflict(format!(
                "A client with the external_id {external_id:?} exists already"
            ))
            .code(ErrorCode::ExternalIdTaken));
        }
        write.check_clients(account, plans).await?;
        write.check_past_clients(account).await?;
        let names = write.workspace_names(account).await?;
        let free = if names.contains(&name.folded()) {
            free_name(name.as_str(), "client", |folded| names.contains(folded))?
        } else {
            name.clone()
        };
        let workspace = write.add_workspace(account, &free, None, "active").await?.id;
        let (fresh, now) = (ClientId::random(), clock::now());
        sqlx::query(
            "INSERT INTO clients (id, account_id, workspace_id, external_id, name, max_computers, monthly_ai_cap, \
             billed_to, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
        )
        .bind(fresh.to_string())
        .bind(account.to_string())
        .bind(workspace.to_string())
        .bind(external_id)
        .bind(name.as_str())
        .bind(terms.max_computers.map(i64::from))
        .bind(terms.monthly_ai_cap)
        .bind(terms.billed_to.name())
        .bind(now.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a client"))?;
        let (digest, last_four) = key;
        let key = NewKey { account, workspace: Some(workspace), name: name.as_str(), digest, last_four };
        insert_key(&mut write, KeyId::random(), &key).await?;
        write.commit().await?;
        self.client(account, fresh).await
    }

    /// Returns an operator's clients, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn clients(&self, account: AccountId) -> Result<Vec<Client>> {
        let query =
            format!("{SELECT} WHERE k.account_id = $1 AND k.removed_at IS NULL ORDER BY k.created_at, k.id");
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(account.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list clients"))?;
        rows.into_iter().map(Client::try_from).collect()
    }

    /// Returns a client of an operator.
    ///
    /// # Errors
    /// `NotFound` when it does not exist or was removed; `Unavailable` or `Internal` when the store fails.
    pub async fn client(&self, account: AccountId, client: ClientId) -> Result<Client> {
        let found = self.past_client(account, client).await?;
        if found.workspace.is_some() { Ok(found) } else { Err(unknown()) }
    }

    /// Returns a client of an operator, including removed ones.
    ///
    /// # Errors
    /// `NotFound` when it never existed; `Unavailable` or `Internal` when the store fails.
    pub async fn past_client(&self, account: AccountId, client: ClientId) -> Result<Client> {
        let query = format!("{SELECT} WHERE k.account_id = $1 AND k.id = $2");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(account.to_string())
            .bind(client.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a client"))?;
        row.ok_or_else(unknown)?.try_into()
    }

    /// Returns the client of a workspace, or `None` when the workspace is no client's.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn client_of(&self, workspace: WorkspaceId) -> Result<Option<Client>> {
        let query = format!("{SELECT} WHERE k.workspace_id = $1");
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(workspace.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a workspace's client"))?;
        row.map(Client::try_from).transpose()
    }

    /// Stores a client's name and terms.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn change_client(
        &self,
        account: AccountId,
        client: ClientId,
        name: &Name,
        terms: &ClientTerms,
    ) -> Result<Client> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE clients SET name = $3, max_computers = $4, monthly_ai_cap = $5, billed_to = $6, updated_at = $7 \
             WHERE account_id = $1 AND id = $2 AND removed_at IS NULL",
        )
        .bind(account.to_string())
        .bind(client.to_string())
        .bind(name.as_str())
        .bind(terms.max_computers.map(i64::from))
        .bind(terms.monthly_ai_cap)
        .bind(terms.billed_to.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("change a client"))?;
        write.commit().await?;
        self.client(account, client).await
    }

    /// Starts the removal of a client: removes its keys and sets its computer limit to zero. The caller
    /// repeats it after a crash.
    ///
    /// # Errors
    /// `Conflict` (`CLIENT_HAS_COMPUTERS`) when it has computers and `computers_too` is not set;
    /// `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn begin_client_removal(&self, client: &Client, computers_too: bool) -> Result<()> {
        let Some(workspace) = client.workspace.map(|id| id.to_string()) else { return Ok(()) };
        let mut write = self.write().await?;
        let (computers,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM computers WHERE workspace_id = $1")
            .bind(&workspace)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count a client's computers"))?;
        if computers > 0 && !computers_too {
            let held = plural(computers, "computer");
            return Err(Error::conflict(format!(
                "The client still holds {held}: remove what it holds, or ask with ?computers=delete \
                 (`hotdesk clients delete --computers`)"
            ))
            .code(ErrorCode::ClientHasComputers));
        }
        for step in [
            "DELETE FROM api_keys WHERE workspace_id = $1",
            "UPDATE clients SET max_computers = 0 WHERE workspace_id = $1",
        ] {
            let done = sqlx::query(step).bind(&workspace).execute(&mut *write.tx).await;
            done.map_err(failed("begin to remove a client"))?;
        }
        write.commit().await
    }

    /// Removes a client without computers, and its workspace. Its usage stays readable. Returns the ids of
    /// the files whose records were removed.
    ///
    /// # Errors
    /// `Conflict` when it still has computers; `Unavailable` or `Internal` when the store fails. Nothing is
    /// changed then.
    pub async fn finish_client_removal(&self, client: &Client) -> Result<Vec<FileId>> {
        let Some(workspace) = client.workspace else { return Ok(Vec::new()) };
        let mut write = self.write().await?;
        sqlx::query("UPDATE clients SET workspace_id = NULL, removed_at = $2 WHERE id = $1")
            .bind(client.id.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a client"))?;
        let files = write.remove_workspace(workspace).await?;
        write.forget_unused_clients(UnixMillis::MAX, Some(client.id)).await?;
        write.commit().await?;
        Ok(files)
    }
}

impl Write {
    /// Refuses one more computer in a client's workspace beyond the client's limit.
    pub(crate) async fn check_client(&mut self, workspace: WorkspaceId, but: ComputerId) -> Result<()> {
        let bound: Option<(Option<i64>, i64)> = sqlx::query_as(
            "SELECT k.max_computers, (SELECT COUNT(*) FROM computers c WHERE c.workspace_id = k.workspace_id \
             AND c.id <> $2) FROM clients k WHERE k.workspace_id = $1",
        )
        .bind(workspace.to_string())
        .bind(but.to_string())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read a client's limit"))?;
        match bound {
            Some((Some(most), held)) if held >= most => {
                let allowed = plural(most, "computer");
                Err(Error::forbidden(format!("This client may have {allowed} and has {held}"))
                    .code(ErrorCode::DesktopLimit)
                    .number("max_computers", most))
            }
            _ => Ok(()),
        }
    }
}
