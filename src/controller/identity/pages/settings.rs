//! Settings page of the account, and the navigation between the settings pages.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::console;
use super::form::{csrf, field, new_password};
use super::verify_email::address_state;
use crate::identity::auth::session::{SignedIn, SignedInForm, hash_password, is_password};
use crate::web::page::{Failure, page};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::Query;
use hotdesk_store::identity::people::Account;

/// Path and title of each settings page.
const PAGES: [(&str, &str); 6] = [
    ("/settings", "Account"),
    ("/settings/sign-in", "Sign-in"),
    ("/settings/sessions", "Sessions"),
    ("/settings/workspaces", "Workspaces"),
    ("/settings/keys", "API keys"),
    ("/settings/connections", "Connections"),
];

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/settings", get(account)).route("/settings/password", post(password))
}

/// Renders the navigation, which leads to the console too, with the page at `here` marked as current.
pub fn navigation(here: &str) -> Markup {
    html! {
        nav aria-label="Settings" {
            ul {
                li { a href=(console::HOME) { "Computers" } }
                @for (path, name) in PAGES {
                    li { a href=(path) aria-current=[(path == here).then_some("page")] { (name) } }
                }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct AccountQuery {
    #[serde(default)]
    changed: bool,
    #[serde(default)]
    mailed: bool,
}

#[derive(Debug, Deserialize)]
struct NewPassword {
    current: Secret,
    password: Secret,
}

/// `GET /settings`.
async fn account(
    State(app): State<AppState>,
    who: SignedIn,
    Query(query): Query<AccountQuery>,
) -> Result<Response, Failure> {
    let (account, operator) = (signed_in(&app, &who).await?, app.store.operator_account().await?);
    let body = html! {
        (navigation("/settings"))
        @if query.changed { p role="status" { "The password was changed. Other browsers are signed out." } }
        @if query.mailed { p role="status" { "A link was mailed to " (account.email) ". It works once, within a day." } }
        div.card {
            p { "Signed in as " strong { (account.email) } @if !account.full_name.is_empty() { " (" (account.full_name) ")" } }
            (address_state(&app, &who, &account, account.id == operator))
            form method="post" action="/sign-out" { (csrf(&who)) button.button { "Sign out" } }
        }
        h2 { "Password" }
        @if account.password_hash.is_some() { (password_form(&who, &account)) }
        @else if account.id == operator {
            p { "The operator has no password yet. " a href="/set-up" { "Choose one" } " to sign in without a link." }
        } @else { p { "This account has no password. It signs in by links." } }
    };
    Ok(page("Settings", &body))
}

/// `POST /settings/password`.
async fn password(
    State(app): State<AppState>,
    source: Source,
    SignedInForm { who, form }: SignedInForm<NewPassword>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::PasswordChange);
    let account = signed_in(&app, &who).await?;
    let attempt = app.sign_ins.attempt(source, &account.email, Instant::now())?;
    if !is_password(form.current, account.password_hash).await? {
        return Err(Error::forbidden("That is not the current password.").into());
    }
    attempt.succeeded();
    let hash = hash_password(form.password).await?;
    app.store.set_password(account.id, &hash, Some(who.session)).await?;
    Ok(Redirect::to("/settings?changed=true").into_response())
}

fn password_form(who: &SignedIn, account: &Account) -> Markup {
    html! {
        form.card method="post" action="/settings/password" {
            (csrf(who))
            input type="hidden" name="username" value=(account.email) autocomplete="username";
            (field("Current password", "current", "password", "", "current-password"))
            (new_password())
            p.dim { "Other browsers that are signed in to this account will be signed out. API keys stay valid." }
            button.button.primary { "Change password" }
        }
    }
}

/// Returns the account of the signed-in person.
async fn signed_in(app: &AppState, who: &SignedIn) -> Result<Account> {
    app.store.account(who.account).await?.ok_or_else(|| Error::internal("a session without an account"))
}
