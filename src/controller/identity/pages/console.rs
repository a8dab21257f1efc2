//! Addresses of the console, for people who are signed in, and the token by which its pages use the API.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::console_tokens::{ConsoleCaller, LIFE};
use crate::web::console::shell;
use crate::web::page::Failure;
use crate::{AppState, audit};
use hotdesk_domain::error::{Error, Result};

/// Path of the console, where people arrive after a sign-in.
pub const HOME: &str = "/console";

/// Returns the routes of the pages and of the token.
pub fn router() -> Router<AppState> {
    let pages = [HOME, "/console/", "/console/{*path}", "/docs", "/docs/", "/docs/{*path}"];
    let pages =
        pages.into_iter().fold(Router::<AppState>::new(), |routes, path| routes.route(path, get(show)));
    pages.route("/console/token", post(issue))
}

#[derive(Debug, Deserialize)]
struct TokenForm {}

/// Access of a page to the API.
#[derive(Debug, Serialize)]
struct PageAccess {
    token: String,
    /// Seconds until the token expires.
    expires_in: u64,
    person: SignedInPerson,
}

/// The person who is signed in.
#[derive(Debug, Serialize)]
struct SignedInPerson {
    id: String,
    email: String,
    full_name: String,
    is_operator: bool,
}

/// `GET /console`, `GET /docs` and everything below.
async fn show(who: SignedIn) -> Response {
    shell(&who.csrf)
}

/// `POST /console/token`: a form, so that it has the protection of forms against other sites' pages.
async fn issue(
    State(app): State<AppState>,
    SignedInForm { who, .. }: SignedInForm<TokenForm>,
) -> Result<Response, Failure> {
    let account = app.store.account(who.account).await?;
    let account = account.ok_or_else(|| Error::internal("a session without an account"))?;
    let is_operator = app.store.operator_account().await? == account.id;
    let token = app.console_tokens.issue(ConsoleCaller { session: who.session, account: who.account });
    // A page asks every few minutes, and the token can do no more than its session.
    audit::record_nothing();
    let access = PageAccess {
        token: token.reveal().to_owned(),
        expires_in: LIFE.as_secs(),
        person: SignedInPerson {
            id: account.id.to_string(),
            email: account.email,
            full_name: account.full_name,
            is_operator,
        },
    };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(access)).into_response())
}
