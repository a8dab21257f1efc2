//! Second step of a sign-in with a password: a code of the authenticator app, or a recovery code.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use maud::{Markup, html};
use serde::Deserialize;

use super::{NextPage, signed_in};
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::PublicForm;
use crate::web::page::{Failure, page};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_http::error_response;
use hotdesk_store::identity::people::Account;

/// Returns the page's route.
pub fn router() -> Router<AppState> {
    Router::new().route("/sign-in/code", post(enter))
}

#[derive(Debug, Deserialize)]
struct SecondStep {
    token: Secret,
    code: Secret,
    #[serde(flatten)]
    next: NextPage,
}

/// `POST /sign-in/code`.
async fn enter(
    State(app): State<AppState>,
    source: Source,
    browser: BrowserDescription,
    PublicForm(form): PublicForm<SecondStep>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignIn);
    let account = account_of(&app, &form.token).await?;
    audit::set_account(account.id);
    let accepted = match app.second_factors.accept(&account, source, form.code.reveal()).await {
        Err(refused) if refused.kind == Kind::RateLimited && app.second_factors.is_logged(&account) => {
            audit::force_entry();
            return Err(refused.into());
        }
        other => other?,
    };
    if !accepted {
        let error = Error::unauthenticated("The code is not right, or it was used before.");
        let mut response = page("Sign in", &fields(&form.token, &form.next, Some(&error.message)));
        *response.status_mut() = error_response::status(error.kind);
        return Ok(response);
    }
    // Of parallel requests with two right codes, one signs in.
    if !app.pending_sign_ins.end(&form.token) {
        return Err(over().into());
    }
    signed_in(&app, &account, &browser, &form.next).await
}

/// Returns the account whose password the browser has shown.
///
/// # Errors
/// `Unauthenticated` when that was too long ago, or the password has changed since.
async fn account_of(app: &AppState, token: &Secret) -> Result<Account> {
    let pending = app.pending_sign_ins.find(token, Instant::now()).ok_or_else(over)?;
    let account = app.store.account(pending.account).await?;
    account.filter(|account| account.password_hash == pending.password_hash).ok_or_else(over)
}

fn over() -> Error {
    Error::unauthenticated("This sign-in has ended: sign in again.")
}

/// Renders the form. Its token stands for the password that was shown.
pub fn fields(token: &Secret, next: &NextPage, wrong: Option<&str>) -> Markup {
    html! {
        form.card method="post" action="/sign-in/code" {
            @if let Some(wrong) = wrong { p.bad role="alert" { (wrong) } }
            input type="hidden" name="token" value=(token.reveal());
            input type="hidden" name="next" value=(next.path());
            label.field {
                span { "Code of the authenticator app, or a recovery code" }
                input type="text" name="code" autocomplete="one-time-code" maxlength="32" required autofocus;
            }
            button.button.primary { "Sign in" }
        }
        p.dim { "Without the app and the recovery codes, the operator of this hotdesk can reset the second step." }
    }
}
