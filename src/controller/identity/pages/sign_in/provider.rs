//! Sign-in by the operator's provider: the redirect to it, and the way back.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};

use super::NextPage;
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::oidc::{CALLBACK, Callback};
use crate::web::origin::Origin;
use crate::web::page::Failure;
use crate::web::source::Source;
use crate::{App, AppState, audit};
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::Result;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::extract::Query;

/// Returns the pages' routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/sign-in/provider", get(begin)).route(CALLBACK, get(finish))
}

/// Renders the link to the provider, if there is one. It is a link and not a form, because browsers apply the pages'
/// `form-action` to every redirect, and the provider may have several origins.
pub fn link(app: &App, next: &NextPage) -> Markup {
    html! {
        @if let Some(name) = app.oidc.name() {
            p { a.button href={ "/sign-in/provider?next=" (percent_encode(next.path())) } { "Sign in with " (name) } }
        }
    }
}

/// `GET /sign-in/provider`: changes nothing but a cookie of this browser.
async fn begin(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    Query(next): Query<NextPage>,
) -> Result<Response, Failure> {
    let begun = app.oidc.begin(source, &origin, next.path(), None).await?;
    Ok(([(header::SET_COOKIE, begun.cookie)], Redirect::to(&begun.url)).into_response())
}

/// `GET /sign-in/provider/callback`.
async fn finish(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    browser: BrowserDescription,
    headers: HeaderMap,
    Query(callback): Query<Callback>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignIn);
    let present = app.sessions.signed_in(&headers).await?;
    let outcome = app.oidc.finish(source, &origin, &headers, &callback, present.as_ref()).await?;
    // The provider gives a code once, so this bounds the entries.
    audit::force_entry();
    let next = NextPage { next: outcome.next };
    let ended = (header::SET_COOKIE, app.oidc.end()?);
    match present {
        Some(who) if who.account == outcome.account => {
            Ok((AppendHeaders([ended]), Redirect::to(next.path())).into_response())
        }
        present => {
            let cookie = app.sessions.sign_in(outcome.account, &browser).await?;
            if let Some(who) = present {
                app.store.remove_session(who.account, who.session).await?;
            }
            let cookies = AppendHeaders([(header::SET_COOKIE, cookie), ended]);
            Ok((cookies, Redirect::to(next.path())).into_response())
        }
    }
}
