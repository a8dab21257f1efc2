//! Audit log: what was done or refused, and by which account. Entries are written in batches, or in the
//! transaction of the action.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Store, Write, failed, id};
use hotdesk_base::ids::{AccountId, ComputerId, GrantId, KeyId, SessionId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::{AuditAction, AuditOutcome, Entry};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Credential, Role};

/// Bound on entries without a known account. Anybody can cause them, so they must not evict the others.
const MAX_ANONYMOUS: u32 = 10_000;
/// SQL condition for such entries ([`Entry::is_unattributed`]).
const UNATTRIBUTED: &str = "account_id IS NULL AND owner_id IS NULL AND method <> ''";
/// SQL condition for all other entries.
const ATTRIBUTED: &str = "(account_id IS NOT NULL OR owner_id IS NOT NULL OR method = '')";

/// Filter of a listing of the audit log, newest first.
#[derive(Clone, Debug)]
pub struct AuditFilter {
    /// The reading account: it sees its own entries, and those of workspaces that it owns or administers.
    pub reader: AccountId,
    /// Whether to include entries without a known account; only the operator may read them.
    pub anonymous: bool,
    /// Only entries with a smaller number.
    pub before: Option<i64>,
    /// Only entries since this time.
    pub since: Option<UnixMillis>,
    /// Only entries up to and including this time.
    pub until: Option<UnixMillis>,
    /// Only entries about this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only entries about this computer.
    pub computer: Option<ComputerId>,
    /// Only entries of this API key.
    pub key: Option<KeyId>,
    /// Most entries to return.
    pub limit: u32,
}

row! {
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
        let status = row.status.map(|status| u16::try_from(status).map_err(|_| bad("status"))).transpose()?;
        let outcome = match status {
            Some(status) => AuditOutcome::of_answer(status),
            None if row.method.is_empty() => AuditOutcome::Done(None),
            None => AuditOutcome::Unanswered,
        };
        Ok(Self {
            at: UnixMillis::new(row.at),
            account: row.account_id.as_deref().map(id).transpose()?,
            credential,
            client: row.client,
            source: row.source.map(|text| text.parse().map_err(|_| bad("source"))).transpose()?,
            method: row.method,
            route: row.route,
            action: row
                .action
                .map(|name| AuditAction::from_name(&name).ok_or_else(|| bad("action")))
                .transpose()?,
            owner: row.owner_id.as_deref().map(id).transpose()?,
            workspace: row.workspace_id.as_deref().map(id).transpose()?,
            computer: row.computer_id.as_deref().map(id).transpose()?,
            target: row.target_id,
            stranger: row.stranger != 0,
            outcome,
            code: row.code,
            request_id: row.request_id,
        })
    }
}

impl Store {
    /// Appends entries in their order.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; no entry is written then.
    pub async fn add_audit(&self, entries: &[Entry]) -> Result<()> {
        let mut write = self.write().await?;
        for entry in entries {
            write.audit(entry).await?;
        }
        write.commit().await
    }

    /// Returns the entries that match a filter with their numbers, newest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Vec<(i64, Entry)>> {
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} {SELECT}")))
            .bind(filter.reader.to_string())
            .bind(Role::Admin.name())
            .bind(i64::from(filter.anonymous))
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(filter.since.map(UnixMillis::as_i64))
            .bind(filter.until.map(UnixMillis::as_i64))
            .bind(filter.workspace.map(|workspace| workspace.to_string()))
            .bind(filter.computer.map(|computer| computer.to_string()))
            .bind(filter.key.map(|key| key.to_string()))
            .bind(i64::from(filter.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list the audit log"))?;
        rows.into_iter().map(|row| Ok((row.seq, Entry::try_from(row)?))).collect()
    }

    /// Returns the e-mail addresses of accounts, at most a page of them. A removed account has no entry.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
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
            query.fetch_all(&self.pool).await.map_err(failed("read the accounts of audit entries"))?;
        rows.into_iter().map(|(account, email)| Ok((id(&account)?, email))).collect()
    }

    /// Removes entries older than `before`, and the oldest ones beyond `most`. The query for them runs
    /// before the write transaction, because other writers wait for it.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; some of the entries may be removed then, and the
    /// next call removes the others.
    pub async fn trim_audit(&self, before: UnixMillis, most: u32) -> Result<()> {
        let nth = |condition: &str| {
            format!("SELECT seq FROM audit WHERE {condition} ORDER BY seq DESC LIMIT 1 OFFSET $1")
        };
        let oldest = [
            (
                format!("at < {}", before.as_i64()),
                before.as_i64(),
                "SELECT MAX(seq) FROM audit WHERE at < $1".to_owned(),
            ),
            (UNATTRIBUTED.to_owned(), MAX_ANONYMOUS.min(most).into(), nth(UNATTRIBUTED)),
            (ATTRIBUTED.to_owned(), most.into(), nth(ATTRIBUTED)),
        ];
        for (condition, bound, select) in oldest {
            let last: Option<(Option<i64>,)> = sqlx::query_as(sqlx::AssertSqlSafe(select))
                .bind(bound)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look for the oldest audit entries"))?;
            let Some((Some(last),)) = last else { continue };
            let mut write = self.write().await?;
            let delete = format!("DELETE FROM audit WHERE seq <= $1 AND {condition}");
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
    /// Appends an entry as part of this transaction.
    pub(crate) async fn audit(&mut self, entry: &Entry) -> Result<()> {
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
            .bind(entry.at.as_i64())
            .bind(entry.account.map(|account| account.to_string()))
            .bind(credential.map(|(kind, _)| kind))
            .bind(credential.map(|(_, id)| id.to_string()))
            .bind(entry.client.as_deref())
            .bind(entry.source.map(|source| source.to_string()))
            .bind(&entry.method)
            .bind(&entry.route)
            .bind(entry.action.map(AuditAction::name))
            .bind(entry.owner.map(|owner| owner.to_string()))
            .bind(entry.workspace.map(|workspace| workspace.to_string()))
            .bind(entry.computer.map(|computer| computer.to_string()))
            .bind(entry.target.as_deref())
            .bind(i64::from(entry.stranger))
            .bind(entry.outcome.status().map(i64::from))
            .bind(entry.code.as_deref())
            .bind(&entry.request_id)
            .execute(&mut *self.tx)
            .await
            .map(|_| ())
            .map_err(failed("write the audit log"))
    }
}
