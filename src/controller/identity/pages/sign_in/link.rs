//! Page of a sign-in link, and the form that its script sends.
//!
//! ```text
//! GET  /sign-in/link#token=...   spends nothing; the script sends the form
//! POST /sign-in/link  token      asks "sign in as ...?", unless `sure`
//! POST /sign-in/link  token sure signs in, and redirects to the link's page
//! ```

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::html;
use serde::Deserialize;

use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::PublicForm;
use crate::identity::people::sign_in_links::invalid_link;
use crate::web::page::{Failure, page, page_with_script};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/sign-in/link", get(show).post(follow))
}

#[derive(Debug, Deserialize)]
struct Link {
    token: Secret,
    /// Whether to sign in without a question.
    #[serde(default)]
    sure: bool,
}

/// `GET /sign-in/link`.
async fn show(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, Failure> {
    let sure = is_typed(&headers) && app.sessions.signed_in(&headers).await?.is_none();
    let body = html! {
        p id="state" role="status" { "Signing in …" }
        form id="link" method="post" action="/sign-in/link" {
            input type="hidden" name="token" value="";
            @if sure { input type="hidden" name="sure" value="true"; }
        }
        noscript { p.bad { "This page needs JavaScript: only a script can read the link." } }
    };
    Ok(page_with_script("Sign in", &body, "sign-in-link.js"))
}

/// Whether the person opened the address outside of any page, for example from a terminal. Another site's page
/// could otherwise sign this browser in to an account that is not the person's, without a question.
fn is_typed(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "none")
}

/// `POST /sign-in/link`.
async fn follow(
    State(app): State<AppState>,
    source: Source,
    browser: BrowserDescription,
    headers: HeaderMap,
    PublicForm(form): PublicForm<Link>,
) -> Result<Response, Failure> {
    if form.sure {
        audit::set_action(AuditAction::SignIn);
    }
    let link = app.sign_in_links.find(&form.token, source).await?;
    let present = app.sessions.signed_in(&headers).await?;
    if present.as_ref().is_some_and(|who| who.account == link.account) {
        let link = app.sign_in_links.consume(&form.token).await?;
        return Ok(Redirect::to(&link.path).into_response());
    }
    if !form.sure {
        let body = html! {
            form.card method="post" action="/sign-in/link" {
                p { "Sign this browser in as " strong { (link.email) } "?" }
                @if present.is_some() { p { "Your present sign-in ends." } }
                p.dim { "Continue only if you made this link yourself, or got it from somebody whom you trust." }
                input type="hidden" name="token" value=(form.token.reveal());
                input type="hidden" name="sure" value="true";
                button.button.primary autofocus { "Sign in" }
            }
        };
        return Ok(page("Sign in", &body));
    }
    let (cookie, link) =
        app.sessions.sign_in_by_link(&form.token, &browser).await?.ok_or_else(invalid_link)?;
    if let Some(who) = present {
        app.store.remove_session(who.account, who.session).await?;
    }
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&link.path)).into_response())
}
