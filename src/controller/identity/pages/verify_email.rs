//! Page of the link that confirms an address.
//!
//! ```text
//! POST /settings/email   mails a link
//! GET  /verify-email     spends nothing: mail scanners open links
//! POST /verify-email     confirms the address of the signed-in account
//! ```

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::csrf;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use crate::{App, AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_http::extract::Query;
use hotdesk_store::identity::people::Account;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/verify-email", get(show).post(confirm)).route("/settings/email", post(send))
}

#[derive(Debug, Deserialize)]
struct Link {
    token: Secret,
}

#[derive(Debug, Deserialize)]
struct NoFields {}

/// `GET /verify-email`.
async fn show(
    State(app): State<AppState>,
    who: SignedIn,
    Query(link): Query<Link>,
) -> Result<Response, Failure> {
    let own = app.addresses.find(&link.token).await? == who.account;
    let body = html! {
        @if own {
            form.card method="post" action="/verify-email" {
                (csrf(&who))
                input type="hidden" name="token" value=(link.token.reveal());
                p { "Confirm that the address of this account is yours?" }
                button.button.primary { "Confirm" }
            }
        } @else {
            p.bad role="alert" { "This link is for another account than the one signed in. Sign out, then open it again." }
            form method="post" action="/sign-out" { (csrf(&who)) button.button { "Sign out" } }
        }
    };
    Ok(page("Confirm your address", &body))
}

/// `POST /verify-email`.
async fn confirm(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<Link>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::AddressVerified);
    app.addresses.verify(&form.token, who.account).await?;
    Ok(Redirect::to("/settings").into_response())
}

/// `POST /settings/email`.
async fn send(State(app): State<AppState>, form: SignedInForm<NoFields>) -> Result<Response, Failure> {
    app.addresses.send_link(form.who.account).await?;
    Ok(Redirect::to("/settings?mailed=true").into_response())
}

/// Says whether the address of an account is confirmed, and how to confirm it.
pub fn address_state(app: &App, who: &SignedIn, account: &Account, is_operator: bool) -> Markup {
    html! {
        @if account.email_verified {
            p { "The address is confirmed." }
        } @else if app.addresses.sends_mail() {
            p { "The address is not confirmed yet: open the link in the mail that was sent to it. Until then you cannot accept invitations." }
            form method="post" action="/settings/email" { (csrf(who)) button.button { "Send the link again" } }
        } @else {
            p.dim { "The address is not confirmed: this hotdesk sends no mail." }
            @if is_operator {
                p.dim { "To confirm addresses of people, set a mail server in " code { "[smtp]" } " of the configuration." }
            }
        }
    }
}
