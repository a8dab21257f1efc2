//! Browser sessions over HTTP (docs/api/authentication.md).

use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_domain::identity::user_agent::browser_name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_store::identity::sign_in::sessions::Session;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::session::{BrowserSession, BrowserSessionList};

/// Returns the routes of browser sessions.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list_browser_sessions, end_browser_sessions)).routes(routes!(end_browser_session))
}

/// Lists the browsers that are signed in to the key's account.
#[utoipa::path(get, path = "/user/sessions", tag = "account",
    responses((status = 200, description = "The sessions, newest sign-in first", body = BrowserSessionList)))]
async fn list_browser_sessions(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<BrowserSessionList>> {
    check_account_wide(&caller, "see the account's browsers")?;
    let sessions = app.sessions.of(caller.account).await?;
    Ok(Json(BrowserSessionList { sessions: sessions.into_iter().map(record).collect() }))
}

/// Signs all browsers of the key's account out. What they have open ends within a second.
#[utoipa::path(delete, path = "/user/sessions", tag = "account",
    responses((status = 200, description = "No browser is signed in", body = Acknowledgement)))]
async fn end_browser_sessions(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<Acknowledgement>> {
    check_account_wide(&caller, "sign the account's browsers out")?;
    app.sessions.end_all(caller.account, None).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Signs one browser of the key's account out. What it has open ends within a second.
#[utoipa::path(delete, path = "/user/sessions/{session_id}", tag = "account",
    params(("session_id" = String, Path)),
    responses((status = 200, description = "The browser is signed out", body = Acknowledgement)))]
async fn end_browser_session(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    check_account_wide(&caller, "sign a browser of the account out")?;
    app.sessions.end(caller.account, &id).await?;
    Ok(Json(Acknowledgement { success: true }))
}

fn record(session: Session) -> BrowserSession {
    BrowserSession {
        id: session.id.to_string(),
        browser: session.user_agent.as_deref().and_then(browser_name),
        user_agent: session.user_agent,
        address: session.address,
        by_link: session.by_link,
        created_at: session.created_at.iso8601(),
        last_used_at: session.last_used_at.map(|at| at.iso8601()),
        expires_at: session.expires_at.iso8601(),
    }
}
