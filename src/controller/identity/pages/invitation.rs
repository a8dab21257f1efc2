//! Page of an invitation's link, and the form that accepts it.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{csrf, new_password};
use super::verify_email::address_state;
use crate::AppState;
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::{PublicForm, SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use hotdesk_base::ids::WorkspaceId;
use hotdesk_base::secret::Secret;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::extract::Query;
use hotdesk_store::identity::invitations::Invitation;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/invitation", get(show).post(join)).route("/invitation/account", post(join_anew))
}

#[derive(Debug, Deserialize)]
struct Link {
    token: Secret,
}

#[derive(Debug, Deserialize)]
struct NewAccount {
    token: Secret,
    #[serde(default)]
    full_name: String,
    password: Secret,
}

/// `GET /invitation`.
async fn show(
    State(app): State<AppState>,
    headers: HeaderMap,
    Query(link): Query<Link>,
) -> Result<Response, Failure> {
    let invitation = app.invitations.find(link.token.reveal()).await?;
    let choice = match app.sessions.signed_in(&headers).await? {
        Some(who) => {
            let account = app.store.account(who.account).await?;
            match account.filter(|account| account.email == invitation.email) {
                Some(account) if app.addresses.check(&account).is_err() => {
                    address_state(&app, &who, &account, false)
                }
                Some(_) => for_signed_in(&who, &link.token),
                None => for_another(&who, &invitation),
            }
        }
        None if app.store.account_of(&invitation.email).await?.is_some() => {
            let back = format!("/invitation?token={}", link.token.reveal());
            html! { p { a href={ "/sign-in?next=" (percent_encode(&back)) } { "Sign in" } " as " (invitation.email) " to join." } }
        }
        None => for_new(&invitation, &link.token, app.addresses.sends_mail()),
    };
    let body = html! {
        p {
            strong { (invitation.inviter) } " invites " strong { (invitation.email) } " into the workspace "
            strong { (invitation.workspace_name) } " as " strong { (invitation.role.name()) } "."
        }
        (choice)
    };
    Ok(page("Invitation", &body))
}

/// `POST /invitation`.
async fn join(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<Link>,
) -> Result<Response, Failure> {
    Ok(entered(app.invitations.accept(form.token.reveal(), who.account).await?))
}

/// `POST /invitation/account`.
async fn join_anew(
    State(app): State<AppState>,
    browser: BrowserDescription,
    PublicForm(form): PublicForm<NewAccount>,
) -> Result<Response, Failure> {
    let (account, workspace) =
        app.invitations.accept_with_new_account(form.token.reveal(), &form.full_name, form.password).await?;
    app.addresses.welcome(account).await;
    let cookie = app.sessions.sign_in(account, &browser).await?;
    Ok(([(header::SET_COOKIE, cookie)], entered(workspace)).into_response())
}

fn entered(workspace: WorkspaceId) -> Response {
    Redirect::to(&format!("/settings/workspaces/{workspace}")).into_response()
}

fn token_field(token: &Secret) -> Markup {
    html! { input type="hidden" name="token" value=(token.reveal()); }
}

fn for_signed_in(who: &SignedIn, token: &Secret) -> Markup {
    html! {
        form.card method="post" action="/invitation" { (csrf(who)) (token_field(token)) button.button.primary { "Join" } }
    }
}

fn for_another(who: &SignedIn, invitation: &Invitation) -> Markup {
    html! {
        p.bad role="alert" { "You are signed in with another address. Sign out, then open the link again as " (invitation.email) "." }
        form method="post" action="/sign-out" { (csrf(who)) button.button { "Sign out" } }
    }
}

fn for_new(invitation: &Invitation, token: &Secret, sends_mail: bool) -> Markup {
    html! {
        form.card method="post" action="/invitation/account" {
            (token_field(token))
            label.field {
                span { "E-mail" }
                input type="email" name="email" value=(invitation.email) autocomplete="username" readonly;
            }
            label.field { span { "Name" } input type="text" name="full_name" autocomplete="name"; }
            (new_password())
            @if sends_mail {
                p.dim { "A link to confirm the address is then mailed to it." }
            } @else {
                p.dim { "This hotdesk sends no mail: nobody checks that the address is yours." }
            }
            button.button.primary { "Create an account and join" }
        }
    }
}
