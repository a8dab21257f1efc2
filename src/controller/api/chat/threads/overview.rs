//! Threads of all computers over HTTP (docs/api/threads.md#threads-of-all-computers).

use axum::Json;
use axum::extract::State;

use super::summary;
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::desktop::thread::{RunState, ThreadCursor};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_store::fleet::threads::ThreadFilter;
use hotdesk_wire::chat::thread::{ThreadOverview, ThreadOverviewQuery};

/// Default number of threads of a page.
const DEFAULT_PAGE: u32 = 50;
/// Most threads of a page: about 150 KB with their newest messages.
const MAX_PAGE: u32 = 100;

/// Returns the route of threads of all computers.
pub(super) fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list_all))
}

/// Lists the threads of all computers to which the key has access.
///
/// A thread that changes between two pages may be on neither: read the first page again.
#[utoipa::path(get, path = "/threads", tag = "threads", params(ThreadOverviewQuery),
    responses((status = 200, description = "A page of threads, the last changed first",
        body = ThreadOverview)))]
pub(crate) async fn list_all(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<ThreadOverviewQuery>,
) -> Result<Json<ThreadOverview>> {
    let workspace = match non_empty(&query.workspace_id) {
        Some(id) => Some(app.directory.find_workspace(&caller, id).await?.id),
        None => None,
    };
    let computer = match non_empty(&query.computer_id) {
        Some(id) => Some(app.directory.find_computer(&caller, id).await?.id),
        None => None,
    };
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let filter = ThreadFilter {
        account: caller.account,
        workspace: workspace.or(caller.scope.as_ref().map(|(id, _)| *id)),
        computer,
        archived: non_empty(&query.status).map(parse_status).transpose()?,
        run: non_empty(&query.run).map(parse_run).transpose()?,
        after: non_empty(&query.cursor).map(parse_cursor).transpose()?,
        limit: limit + 1,
    };
    let mut found = app.threads.overview(&filter).await?;
    let is_last = found.len() <= limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.iter().next_back().filter(|_| !is_last).map(|(thread, _)| {
        let cursor = ThreadCursor { updated_at: thread.updated_at, thread: thread.id };
        cursor.to_string()
    });
    let threads = found.into_iter().map(|listed| summary(&app, listed)).collect();
    Ok(Json(ThreadOverview { threads, next_cursor }))
}

fn non_empty(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

/// Returns whether a status is that of archived threads.
fn parse_status(text: &str) -> Result<bool> {
    match text {
        "active" => Ok(false),
        "archived" => Ok(true),
        _ => Err(Error::invalid("status must be active or archived").into()),
    }
}

fn parse_run(text: &str) -> Result<RunState> {
    let unknown = || {
        let names: Vec<&str> = RunState::ALL.into_iter().map(RunState::name).collect();
        Error::invalid(format!("run must be one of {}", names.join(", ")))
    };
    Ok(RunState::from_name(text).ok_or_else(unknown)?)
}

fn parse_cursor(text: &str) -> Result<ThreadCursor> {
    Ok(text.parse().map_err(|()| Error::invalid("cursor must be a next_cursor of this list"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_runs_are_named() {
        assert!(!parse_status("active").unwrap());
        assert!(parse_status("archived").unwrap());
        assert!(parse_status("Active").is_err());
        assert_eq!(parse_run("max_steps").unwrap(), RunState::MaxSteps);
        let refused = parse_run("sleeping").unwrap_err().0.message;
        assert!(refused.contains("running") && refused.contains("interrupted"), "{refused}");
    }
}
