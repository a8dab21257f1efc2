//! Settings pages about a person's own sign-in: the second step, passkeys, the provider, and the browsers that are signed in.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use super::form::field;
use super::settings::navigation;
use crate::AppState;
use crate::identity::auth::session::{SignedIn, is_password};
use crate::web::page::{Failure, page};
use crate::web::source::Source;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::identity::people::Account;

mod authenticator;
mod passkeys;
mod provider;
mod sessions;

/// Path of the page.
const HERE: &str = "/settings/sign-in";

/// Returns the routes of the pages.
pub fn router() -> Router<AppState> {
    Router::new()
        .route(HERE, get(show))
        .merge(authenticator::router())
        .merge(passkeys::router())
        .merge(provider::router())
        .merge(sessions::router())
}

/// `GET /settings/sign-in`.
async fn show(State(app): State<AppState>, who: SignedIn) -> Result<Response, Failure> {
    let body = html! { (navigation(HERE)) (authenticator::section(&app, &who).await?) (passkeys::section(&app, &who).await?) (provider::section(&app, &who).await?) };
    Ok(page("Sign-in", &body))
}

/// Returns the account of the signed-in person.
async fn account_of(app: &AppState, who: &SignedIn) -> Result<Account> {
    app.store.account(who.account).await?.ok_or_else(|| Error::internal("a session without an account"))
}

/// Checks the password of a signed-in person, so that a browser that somebody left open cannot change how the
/// account signs in. An account without a password shows none.
///
/// # Errors
/// `Forbidden` for a wrong password; `RateLimited` after too many.
async fn check_password(
    app: &AppState,
    source: Source,
    account: &Account,
    password: Option<Secret>,
) -> Result<()> {
    if account.password_hash.is_none() {
        return Ok(());
    }
    let attempt = app.sign_ins.attempt(source, &account.email, Instant::now())?;
    let password = password.unwrap_or_else(|| Secret::new(""));
    if !is_password(password, account.password_hash.clone()).await? {
        return Err(Error::forbidden("That is not the current password."));
    }
    attempt.succeeded();
    Ok(())
}

/// Renders the field of the present password, for an account that has one.
fn password_field(account: &Account) -> Markup {
    html! {
        @if account.password_hash.is_some() {
            (field("Current password", "password", "password", "", "current-password"))
        }
    }
}
