//! Sign-in with e-mail and password, and sign-out. Files beside this one hold the other ways and the second step.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::console;
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::{self, PublicForm, SignedInForm};
use crate::web::page::{Failure, page};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response;
use hotdesk_http::extract::Query;
use hotdesk_store::identity::people::Account;

mod code;
mod link;
mod passkey;
mod provider;

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/sign-in", get(form).post(enter))
        .route("/sign-out", post(leave))
        .merge(code::router())
        .merge(link::router())
        .merge(passkey::router())
        .merge(provider::router())
}

/// Page to open after the sign-in.
#[derive(Debug, Default, Deserialize)]
struct NextPage {
    #[serde(default)]
    next: String,
}

impl NextPage {
    /// Returns the path if it is on this service, else that of the console. A sign-in must not redirect to
    /// other sites.
    fn path(&self) -> &str {
        let ours = self.next.starts_with('/')
            && !self.next.starts_with("//")
            && self.next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if ours { &self.next } else { console::HOME }
    }
}

#[derive(Debug, Deserialize)]
struct SignIn {
    email: String,
    password: Secret,
    #[serde(flatten)]
    next: NextPage,
}

#[derive(Debug, Deserialize)]
struct EmptyForm {}

/// `GET /sign-in`.
async fn form(
    State(app): State<AppState>,
    headers: HeaderMap,
    Query(next): Query<NextPage>,
) -> Result<Response, Failure> {
    if app.sessions.signed_in(&headers).await?.is_some() {
        return Ok(Redirect::to(next.path()).into_response());
    }
    let new = app.operator.is_new().await?;
    let body = html! {
        (fields("", &next, None))
        (passkey::link(&next))
        (provider::link(&app, &next))
        @if new { p { "Is this hotdesk new? " a href="/set-up" { "Set it up" } " first." } }
    };
    Ok(page("Sign in", &body))
}

/// `POST /sign-in`.
async fn enter(
    State(app): State<AppState>,
    source: Source,
    browser: BrowserDescription,
    headers: HeaderMap,
    PublicForm(form): PublicForm<SignIn>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignIn);
    let email = form.email.trim().to_lowercase();
    let now = Instant::now();
    let account = app.store.account_of(&email).await?;
    let known = account.as_ref().and_then(|account| app.known_browsers.find(&headers, account, clock::now()));
    let attempted = match known {
        Some(known) => app.sign_ins.attempt_in(known, now),
        None => app.sign_ins.attempt(source, &email, now),
    };
    let attempt = match attempted {
        Ok(attempt) => attempt,
        Err(refused) => {
            if app.sign_ins.is_logged(&email, now) {
                audit::force_entry();
                if let Some(account) = account {
                    audit::set_account(account.id);
                }
            }
            return Err(refused.into());
        }
    };
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let known = session::is_password(form.password, hash).await?;
    let tried_for = account.as_ref().map(|account| account.id);
    let Some(account) = account.filter(|_| known) else {
        if let Some(account) = tried_for {
            audit::set_account(account);
        }
        let error = Error::unauthenticated("The e-mail address or the password is not right.");
        let mut response = page("Sign in", &fields(&email, &form.next, Some(&error.message)));
        *response.status_mut() = error_response::status(error.kind);
        return Ok(response);
    };
    attempt.succeeded();
    if app.second_factors.of(account.id).await?.is_some() {
        audit::set_action(AuditAction::SecondFactorAsked);
        audit::set_account(account.id);
        let token = app.pending_sign_ins.begin(&account, now);
        return Ok(page("Sign in", &code::fields(&token, &form.next, None)));
    }
    signed_in(&app, &account, &browser, &form.next).await
}

/// Signs a browser in after the password and what else is needed, and marks it as known.
async fn signed_in(
    app: &AppState,
    account: &Account,
    browser: &BrowserDescription,
    next: &NextPage,
) -> Result<Response, Failure> {
    let session = app.sessions.sign_in(account.id, browser).await?;
    let mark = app.known_browsers.mark(account, clock::now())?;
    let cookies = AppendHeaders([(header::SET_COOKIE, session), (header::SET_COOKIE, mark)]);
    Ok((cookies, Redirect::to(next.path())).into_response())
}

/// `POST /sign-out`.
async fn leave(State(app): State<AppState>, form: SignedInForm<EmptyForm>) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignOut);
    let cookie = app.sessions.sign_out(&form.who).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

fn fields(email: &str, next: &NextPage, wrong: Option<&str>) -> Markup {
    html! {
        form.card method="post" action="/sign-in" {
            @if let Some(wrong) = wrong { p.bad role="alert" { (wrong) } }
            input type="hidden" name="next" value=(next.path());
            label.field { span { "E-mail" } input type="email" name="email" value=(email) autocomplete="username" required autofocus; }
            label.field {
                span { "Password" }
                input type="password" name="password" autocomplete="current-password" required;
            }
            button.button.primary { "Sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_our_own_pages_only() {
        for (next, path) in [
            ("/cli/approve?code=ABCD", "/cli/approve?code=ABCD"),
            ("", "/console"),
            ("//evil.example", "/console"),
            ("/\\evil.example", "/console"),
            ("https://evil.example", "/console"),
            ("/a b", "/console"),
        ] {
            assert_eq!(NextPage { next: next.to_owned() }.path(), path, "{next}");
        }
    }
}
