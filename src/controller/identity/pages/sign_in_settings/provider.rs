//! Settings of the connection with a person at the operator's provider.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use maud::{Markup, html};
use serde::Deserialize;

use super::{HERE, account_of, check_password, password_field};
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::pages::form::{csrf, moment};
use crate::identity::pages::settings::navigation;
use crate::web::origin::Origin;
use crate::web::page::{Failure, page};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Result;

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/settings/sign-in/provider", post(connect))
        .route("/settings/sign-in/provider/remove", post(disconnect))
}

#[derive(Debug, Deserialize)]
struct PasswordForm {
    #[serde(default)]
    password: Option<Secret>,
}

/// Renders the section of the settings page; nothing when no provider is configured.
pub async fn section(app: &AppState, who: &SignedIn) -> Result<Markup> {
    let Some(name) = app.oidc.name() else { return Ok(html! {}) };
    let account = account_of(app, who).await?;
    let connected = app.oidc.connected(account.id).await?;
    Ok(html! {
        h2 { "Sign-in with " (name) }
        @if let Some(person) = connected {
            p {
                "This account is connected"
                @if let Some(email) = &person.email { " as " strong { (email) } }
                " since " (moment(person.created_at)) "."
            }
            @if account.password_hash.is_some() {
                form.card method="post" action="/settings/sign-in/provider/remove" {
                    (csrf(who))
                    (password_field(&account))
                    button.button.danger { "Disconnect" }
                }
            } @else { p.dim { "It has no password, so it cannot be disconnected." } }
        } @else {
            form.card method="post" action="/settings/sign-in/provider" {
                (csrf(who))
                p { "Connect this account, then sign in with " (name) ". Such a sign-in needs no code of an authenticator app here." }
                (password_field(&account))
                button.button.primary { "Connect" }
            }
        }
    })
}

/// `POST /settings/sign-in/provider`: begins a connection. The page that it shows leads to the provider by a link,
/// because the pages' `form-action` would stop a redirect.
async fn connect(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    SignedInForm { who, form }: SignedInForm<PasswordForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::ProviderConnected);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, form.password).await?;
    let begun = app.oidc.begin(source, &origin, HERE, Some(&who)).await?;
    let name = app.oidc.name().unwrap_or_default();
    let body = html! {
        (navigation(HERE))
        p { "Sign in with " (name) " now. After that, this account is connected." }
        p { a.button.primary href=(begun.url) { "Continue to " (name) } }
    };
    Ok(([(header::SET_COOKIE, begun.cookie)], page("Connect", &body)).into_response())
}

/// `POST /settings/sign-in/provider/remove`.
async fn disconnect(
    State(app): State<AppState>,
    source: Source,
    SignedInForm { who, form }: SignedInForm<PasswordForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::ProviderDisconnected);
    let account = account_of(&app, &who).await?;
    check_password(&app, source, &account, form.password).await?;
    app.oidc.disconnect(account.id).await?;
    Ok(Redirect::to(HERE).into_response())
}
