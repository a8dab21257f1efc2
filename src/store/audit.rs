//! What was done and what was refused, by whom? Written in batches, or with what was done in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use super::{Store, Write, failed, id};
use hotdesk_base::ids::{AccountId, ComputerId, GrantId, KeyId, SessionId, WorkspaceId};
use hotdesk_domain::access::{Credential, Role};
use hotdesk_domain::audit::{Action, Entry};
use hotdesk_domain::error::{Error, Result};

/// Entries of nobody known that are kept: anybody can cause them, so they have room of their own.
const MAX_ANONYMOUS: u32 = 10_000;
/// Those entries ([`Entry::is_nobodys`]) ...
const NOBODYS: &str = "account_id IS NULL AND owner_id IS NULL AND method <> ''";
/// ... and all others.
const KNOWN: &str = "(account_id IS NOT NULL OR owner_id IS NOT NULL OR method = '')";

/// Which entries are listed, the newest first.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Whoever lists: entries of this account, of its workspaces, and of those that it administers.
    pub reader: AccountId,
    /// Those of nobody known too: the operator's matter.
    pub anonymous: bool,
    /// Those before this number.
    pub before: Option<i64>,
    /// Those since this moment.
    pub since: Option<i64>,
    /// Those until this moment, it included.
    pub until: Option<i64>,
    /// Those about this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Those about this computer.
    pub computer: Option<ComputerId>,
    /// Those of this key.
    pub key: Option<KeyId>,
    /// At most so many.
    pub limit: u32,
}

#[derive(sqlx::FromRow)]
struct Row {
    seq: i64,
    at: i64,
    account_id: Option<String>,
    credential_kind: Option<String>,
    credential_id: Option<String>,
    client: Option<String>,
    source: Option<String>,
    method: String,
    route: String,
    action: Option<String>,
    owner_id: Option<String>,
    workspace_id: Option<String>,
    computer_id: Option<String>,
    target_id: Option<String>,
    stranger: i64,
    status: Option<i64>,
    code: Option<String>,
    request_id: String,
}

const COLUMNS: &str = "seq, at, account_id, credential_kind, credential_id, client, source, method, route, action, \
    owner_id, workspace_id, computer_id, target_id, stranger, status, code, request_id";

const SELECT: &str = "FROM audit WHERE (account_id = $1 OR owner_id = $1 \
        OR workspace_id IN (SELECT workspace_id FROM members WHERE account_id = $1 AND role = $2) \
        OR ($3 = 1 AND account_id IS NULL)) \
    AND seq < $4 AND ($5 IS NULL OR at >= $5) AND ($6 IS NULL OR at <= $6) \
    AND ($7 IS NULL OR workspace_id = $7) AND ($8 IS NULL OR computer_id = $8) \
    AND ($9 IS NULL OR (credential_kind = 'key' AND credential_id = $9)) ORDER BY seq DESC LIMIT $10";

impl TryFrom<Row> for Entry {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("audit entry {} holds a bad {what}", row.seq));
        let credential = match (row.credential_kind.as_deref(), row.credential_id.as_deref()) {
            (Some("key"), Some(text)) => Some(Credential::Key(id(text)?)),
            (Some("session"), Some(text)) => Some(Credential::Session(id(text)?)),
            (Some("grant"), Some(text)) => Some(Credential::Grant(id(text)?)),
            (None, None) => None,
            _ => return Err(bad("credential")),
        };
        Ok(Self {
            at: row.at,
            account: row.account_id.as_deref().map(id).transpose()?,
            credential,
            client: row.client,
            source: row.source.map(|text| text.parse().map_err(|_| bad("source"))).transpose()?,
            method: row.method,
            route: row.route,
            action: row.action.map(|name| Action::named(&name).ok_or_else(|| bad("action"))).transpose()?,
            owner: row.owner_id.as_deref().map(id).transpose()?,
            workspace: row.workspace_id.as_deref().map(id).transpose()?,
            computer: row.computer_id.as_deref().map(id).transpose()?,
            target: row.target_id,
            stranger: row.stranger != 0,
            status: row.status.map(|status| u16::try_from(status).map_err(|_| bad("status"))).transpose()?,
            code: row.code,
            request_id: row.request_id,
        })
    }
}

impl Store {
    /// Writes entries down, in their order.
    ///
    /// # Errors
    /// When the store fails; then none of them is written.
    pub async fn add_audit(&self, entries: &[Entry]) -> Result<()> {
        let mut write = self.write().await?;
        for entry in entries {
            write.audit(entry).await?;
        }
        write.commit().await
    }

    /// The entries that a filter lets through, the newest first, with their numbers.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn audit(&self, filter: &Filter) -> Result<Vec<(i64, Entry)>> {
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} {SELECT}")))
            .bind(filter.reader.to_string())
            .bind(Role::Admin.name())
            .bind(i64::from(filter.anonymous))
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(filter.since)
            .bind(filter.until)
            .bind(filter.workspace.map(|workspace| workspace.to_string()))
            .bind(filter.computer.map(|computer| computer.to_string()))
            .bind(filter.key.map(|key| key.to_string()))
            .bind(i64::from(filter.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list the audit log"))?;
        rows.into_iter().map(|row| Ok((row.seq, Entry::try_from(row)?))).collect()
    }

    /// The e-mail addresses of accounts, as many as a page names; of those that are gone there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn emails(&self, accounts: &BTreeSet<AccountId>) -> Result<BTreeMap<AccountId, String>> {
        if accounts.is_empty() {
            return Ok(BTreeMap::new());
        }
        let places: Vec<String> = (1..=accounts.len()).map(|place| format!("${place}")).collect();
        let select = format!("SELECT id, email FROM accounts WHERE id IN ({})", places.join(", "));
        let mut query = sqlx::query_as(sqlx::AssertSqlSafe(select));
        for account in accounts {
            query = query.bind(account.to_string());
        }
        let rows: Vec<(String, String)> =
            query.fetch_all(&self.pool).await.map_err(failed("look up who did what"))?;
        rows.into_iter().map(|(account, email)| Ok((id(&account)?, email))).collect()
    }

    /// Forgets entries from before a moment, and the oldest of more than so many. What goes is looked for before the
    /// write begins, which others wait for.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn trim_audit(&self, before: i64, most: u32) -> Result<()> {
        let nth =
            |whose: &str| format!("SELECT seq FROM audit WHERE {whose} ORDER BY seq DESC LIMIT 1 OFFSET $1");
        let oldest = [
            (format!("at < {before}"), before, "SELECT MAX(seq) FROM audit WHERE at < $1".to_owned()),
            (NOBODYS.to_owned(), MAX_ANONYMOUS.min(most).into(), nth(NOBODYS)),
            (KNOWN.to_owned(), most.into(), nth(KNOWN)),
        ];
        for (which, bound, select) in oldest {
            let last: Option<(Option<i64>,)> = sqlx::query_as(sqlx::AssertSqlSafe(select))
                .bind(bound)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look for the oldest of the audit log"))?;
            let Some((Some(last),)) = last else { continue };
            let mut write = self.write().await?;
            let delete = format!("DELETE FROM audit WHERE seq <= $1 AND {which}");
            sqlx::query(sqlx::AssertSqlSafe(delete))
                .bind(last)
                .execute(&mut *write.tx)
                .await
                .map_err(failed("trim the audit log"))?;
            write.commit().await?;
        }
        Ok(())
    }
}

impl Write {
    /// Writes an entry down with what else this write does.
    pub(super) async fn audit(&mut self, entry: &Entry) -> Result<()> {
        let credential = entry.credential.map(|credential| match credential {
            Credential::Key(KeyId(id)) => ("key", id),
            Credential::Session(SessionId(id)) => ("session", id),
            Credential::Grant(GrantId(id)) => ("grant", id),
        });
        let insert = format!(
            "INSERT INTO audit ({COLUMNS}) VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM audit), $1, $2, $3, $4, \
             $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
        );
        sqlx::query(sqlx::AssertSqlSafe(insert))
            .bind(entry.at)
            .bind(entry.account.map(|account| account.to_string()))
            .bind(credential.map(|(kind, _)| kind))
            .bind(credential.map(|(_, id)| id.to_string()))
            .bind(entry.client.as_deref())
            .bind(entry.source.map(|source| source.to_string()))
            .bind(&entry.method)
            .bind(&entry.route)
            .bind(entry.action.map(Action::name))
            .bind(entry.owner.map(|owner| owner.to_string()))
            .bind(entry.workspace.map(|workspace| workspace.to_string()))
            .bind(entry.computer.map(|computer| computer.to_string()))
            .bind(entry.target.as_deref())
            .bind(i64::from(entry.stranger))
            .bind(entry.status.map(i64::from))
            .bind(entry.code.as_deref())
            .bind(&entry.request_id)
            .execute(&mut *self.tx)
            .await
            .map(|_| ())
            .map_err(failed("write the audit log"))
    }
}
