//! Who am I here, and where is what I can set? The account, and the way to the other pages.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Failure, csrf, field, new_password, page};
use crate::auth::session::{Posted, SignedIn, hash_password, is_password};
use crate::auth::source::Source;
use crate::{Shared, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::Action;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::Query;
use hotdesk_store::people::Account;

/// The settings' pages: where, and what they are called.
const PAGES: [(&str, &str); 4] = [
    ("/settings", "Account"),
    ("/settings/workspaces", "Workspaces"),
    ("/settings/keys", "API keys"),
    ("/settings/connections", "Connections"),
];

/// The page of the account.
pub fn router() -> Router<Shared> {
    Router::new().route("/settings", get(account)).route("/settings/password", post(password))
}

/// The way between the settings' pages, on the one at `here`.
pub fn navigation(here: &str) -> Markup {
    html! {
        nav aria-label="Settings" {
            ul {
                @for (path, name) in PAGES {
                    li { a href=(path) aria-current=[(path == here).then_some("page")] { (name) } }
                }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Told {
    #[serde(default)]
    changed: bool,
}

#[derive(Debug, Deserialize)]
struct NewPassword {
    current: Secret,
    password: Secret,
}

/// `GET /settings`.
async fn account(
    State(app): State<Shared>,
    who: SignedIn,
    Query(told): Query<Told>,
) -> Result<Response, Failure> {
    let account = signed_in(&app, &who).await?;
    let body = html! {
        (navigation("/settings"))
        @if told.changed { p role="status" { "The password is changed. Other browsers are signed out." } }
        div.card {
            p { "Signed in as " strong { (account.email) } @if !account.full_name.is_empty() { " (" (account.full_name) ")" } }
            form method="post" action="/sign-out" { (csrf(&who)) button.quiet { "Sign out" } }
        }
        h2 { "Password" }
        form.card method="post" action="/settings/password" {
            (csrf(&who))
            input type="hidden" name="username" value=(account.email) autocomplete="username";
            (field("Current password", "current", "password", "", "current-password"))
            (new_password())
            p.dim { "Other browsers that are signed in to this account are signed out. API keys go on." }
            button { "Change password" }
        }
    };
    Ok(page("Settings", &body))
}

/// `POST /settings/password`.
async fn password(
    State(app): State<Shared>,
    source: Source,
    Posted { who, form }: Posted<NewPassword>,
) -> Result<Response, Failure> {
    audit::did(Action::PasswordChange);
    let account = signed_in(&app, &who).await?;
    let tried = app.sign_ins.attempt(source, &account.email, Instant::now())?;
    if !is_password(form.current, account.password_hash).await? {
        return Err(Error::forbidden("That is not the current password.").into());
    }
    tried.succeeded();
    let hash = hash_password(form.password).await?;
    app.store.set_password(account.id, &hash, Some(who.session)).await?;
    Ok(Redirect::to("/settings?changed=true").into_response())
}

/// The account of a signed-in browser.
async fn signed_in(app: &Shared, who: &SignedIn) -> Result<Account> {
    app.store.account(who.account).await?.ok_or_else(|| Error::internal("a session without an account"))
}
