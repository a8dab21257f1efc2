//! The audit log over HTTP: who may read which of its lines?

use crate::auth::Authenticated;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{App, Shared};
use hotdesk_base::clock::{iso8601, parse_iso8601};
use hotdesk_base::ids::{AccountId, ComputerId};
use hotdesk_domain::access::{Caller, Credential};
use hotdesk_domain::audit::Entry;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_store::audit::Filter;
use hotdesk_wire::audit::{AuditEntry, AuditPage, AuditQuery};

/// Entries of a page when nobody says.
const DEFAULT_PAGE: u32 = 100;
/// Entries of a page at most: some 200 KB.
const MAX_PAGE: u32 = 500;

/// The route of the log.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list))
}

/// What was done and what was refused, the newest first: by the account, and by others in workspaces that it owns or
/// administers. A key that reaches one workspace sees what was about that.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page of it", body = AuditPage)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditPage>> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let asked = match named(&query.workspace_id) {
        Some(id) => Some(app.find_workspace(&caller, id).await?.id),
        None => None,
    };
    let computer = match named(&query.computer_id) {
        Some(id) => Some(computer(&app, &caller, id).await?),
        None => None,
    };
    let key = named(&query.key_id).map(|id| id.parse().map_err(|_| Error::not_found("Key not found")));
    let cursor = named(&query.cursor)
        .map(|text| text.parse().map_err(|_| Error::invalid("cursor is not one that this list gave")));
    let filter = Filter {
        reader: caller.account,
        anonymous: caller.scope.is_none() && app.store.operator().await? == caller.account,
        before: cursor.transpose()?,
        since: moment("since", &query.since)?,
        until: moment("until", &query.until)?,
        workspace: asked.or(caller.scope.as_ref().map(|(id, _)| *id)),
        computer,
        key: key.transpose()?,
        limit: limit + 1,
    };
    // Who reads the log finds what it did before.
    app.write_audit().await?;
    let mut found = app.store.audit(&filter).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|(number, _)| number.to_string());
    let accounts = found.iter().filter(|(_, entry)| tells_who(caller.account, entry));
    let emails = app.store.emails(&accounts.filter_map(|(_, entry)| entry.account).collect()).await?;
    let entries = found.into_iter().map(|(number, entry)| record(caller.account, &emails, number, entry));
    Ok(Json(AuditPage { entries: entries.collect(), next_cursor: next }))
}

fn named(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

/// A computer that the caller may touch, or that nobody has any more.
async fn computer(app: &App, caller: &Caller, id: &str) -> Result<ComputerId> {
    match app.find_computer(caller, id).await {
        Ok(found) => Ok(found.id),
        Err(error) if error.kind == Kind::NotFound => Ok(id.parse().map_err(|_| error)?),
        Err(error) => Err(error.into()),
    }
}

fn moment(name: &str, value: &Option<String>) -> Result<Option<i64>> {
    let read = |text| {
        let wrong = || Error::invalid(format!("{name} must be a time with a zone, as 2026-01-31T12:00:00Z"));
        parse_iso8601(text).ok_or_else(wrong)
    };
    Ok(named(value).map(read).transpose()?)
}

/// Whether the reader may know the address of who is behind a line: its own, and that of people who have a part in a workspace.
fn tells_who(reader: AccountId, entry: &Entry) -> bool {
    !entry.stranger || entry.account == Some(reader)
}

/// A line as its reader sees it. Who was refused as a stranger does not learn where.
fn record(reader: AccountId, emails: &BTreeMap<AccountId, String>, number: i64, entry: Entry) -> AuditEntry {
    let hidden = entry.stranger && entry.account == Some(reader) && entry.owner != Some(reader);
    let (credential, credential_id) = match entry.credential {
        Some(Credential::Key(id)) => (Some("key"), Some(id.to_string())),
        Some(Credential::Session(id)) => (Some("session"), Some(id.to_string())),
        Some(Credential::Grant(id)) => (Some("grant"), Some(id.to_string())),
        None => (None, None),
    };
    let result = entry.result().name().to_owned();
    let told = entry.account.filter(|_| tells_who(reader, &entry));
    AuditEntry {
        id: number,
        at: iso8601(entry.at),
        account_id: entry.account.map(|account| account.to_string()),
        account_email: told.and_then(|account| emails.get(&account).cloned()),
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
        status: entry.status,
        code: entry.code,
        request_id: entry.request_id,
    }
}
