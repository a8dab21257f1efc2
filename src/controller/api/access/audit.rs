//! Audit log over HTTP, with its rules of visibility.

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;

use crate::{App, AppState};
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::identity::access::{Caller, Credential};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_store::audit::AuditFilter;
use hotdesk_wire::audit::{AuditEntry, AuditPage, AuditQuery};

/// Default number of entries of a page.
const DEFAULT_PAGE: u32 = 100;
/// Most entries of a page: about 200 KB.
const MAX_PAGE: u32 = 500;

/// Returns the route of the log.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list))
}

/// Lists the audit log, newest first.
///
/// It has changes and refusals by the account, and by others in workspaces that the account owns or
/// administers. A scoped key sees the entries of its workspace.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page of entries", body = AuditPage)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditPage>> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let requested_workspace = match non_empty(&query.workspace_id) {
        Some(id) => Some(app.directory.find_workspace(&caller, id).await?.id),
        None => None,
    };
    let computer = match non_empty(&query.computer_id) {
        Some(id) => Some(computer(&app, &caller, id).await?),
        None => None,
    };
    let key = non_empty(&query.key_id).map(|id| id.parse().map_err(|_| Error::not_found("Key not found")));
    let cursor = non_empty(&query.cursor)
        .map(|text| text.parse().map_err(|_| Error::invalid("cursor must be a next_cursor of this list")));
    let filter = AuditFilter {
        reader: caller.account,
        anonymous: caller.scope.is_none() && app.store.operator_account().await? == caller.account,
        before: cursor.transpose()?,
        since: parse_time("since", &query.since)?,
        until: parse_time("until", &query.until)?,
        workspace: requested_workspace.or(caller.scope.as_ref().map(|(id, _)| *id)),
        computer,
        key: key.transpose()?,
        limit: limit + 1,
    };
    // The reader finds its own earlier actions.
    app.audit.write().await?;
    let mut found = app.store.audit(&filter).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|(number, _)| number.to_string());
    let accounts = found.iter().filter(|(_, entry)| shows_account(caller.account, entry));
    let emails = app.store.emails(&accounts.filter_map(|(_, entry)| entry.account).collect()).await?;
    let entries = found.into_iter().map(|(number, entry)| record(caller.account, &emails, number, entry));
    Ok(Json(AuditPage { entries: entries.collect(), next_cursor: next }))
}

fn non_empty(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

/// Returns a computer that the caller may use, or a deleted one.
async fn computer(app: &App, caller: &Caller, id: &str) -> Result<ComputerId> {
    match app.directory.find_computer(caller, id).await {
        Ok(found) => Ok(found.id),
        Err(error) if error.kind == Kind::NotFound => Ok(id.parse().map_err(|_| error)?),
        Err(error) => Err(error.into()),
    }
}

/// Parses a time of a filter; `None` when it is absent or empty.
pub(in crate::api) fn parse_time(name: &str, value: &Option<String>) -> Result<Option<UnixMillis>> {
    let read = |text| {
        let example = "2026-01-31T12:00:00Z";
        let wrong =
            || Error::invalid(format!("{name} must be 1970 or later and have a time zone: {example}"));
        UnixMillis::parse_iso8601(text).ok_or_else(wrong)
    };
    Ok(non_empty(value).map(read).transpose()?)
}

/// Whether the reader may see the account of an entry: its own, and those of people with a role in the
/// workspace.
fn shows_account(reader: AccountId, entry: &Entry) -> bool {
    !entry.stranger || entry.account == Some(reader)
}

/// Converts an entry for its reader. An account that was refused for lack of a role does not learn the
/// target.
fn record(reader: AccountId, emails: &BTreeMap<AccountId, String>, number: i64, entry: Entry) -> AuditEntry {
    let hidden = entry.stranger && entry.account == Some(reader) && entry.owner != Some(reader);
    let (credential, credential_id) = match entry.credential {
        Some(Credential::Key(id)) => (Some("key"), Some(id.to_string())),
        Some(Credential::Session(id)) => (Some("session"), Some(id.to_string())),
        Some(Credential::Grant(id)) => (Some("grant"), Some(id.to_string())),
        None => (None, None),
    };
    let result = entry.outcome.name().to_owned();
    let visible_account = entry.account.filter(|_| shows_account(reader, &entry));
    AuditEntry {
        id: number,
        at: entry.at.iso8601(),
        account_id: entry.account.map(|account| account.to_string()),
        account_email: visible_account.and_then(|account| emails.get(&account).cloned()),
        credential: credential.map(str::to_owned),
        credential_id,
        client: entry.client,
        source: entry.source.map(|source| source.to_string()),
        method: entry.method,
        route: entry.route,
        action: entry.action.map(|action| action.name().to_owned()),
        workspace_id: entry.workspace.filter(|_| !hidden).map(|workspace| workspace.to_string()),
        computer_id: entry.computer.filter(|_| !hidden).map(|computer| computer.to_string()),
        target_id: entry.target,
        result,
        status: entry.outcome.status(),
        code: entry.code,
        request_id: entry.request_id,
    }
}
