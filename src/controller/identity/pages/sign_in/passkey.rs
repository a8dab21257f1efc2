//! Sign-in with a passkey.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::NextPage;
use crate::identity::auth::browser::BrowserDescription;
use crate::identity::auth::session::PublicForm;
use crate::identity::passkeys::{Assertion, rp_id};
use crate::web::origin::Origin;
use crate::web::page::{Failure, page_with_script};
use crate::web::source::Source;
use crate::{AppState, audit};
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::extract::Query;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/sign-in/passkey", get(show).post(enter))
}

/// Renders the link to the page.
pub fn link(next: &NextPage) -> Markup {
    html! { p { a href={ "/sign-in/passkey?next=" (percent_encode(next.path())) } { "Sign in with a passkey" } } }
}

#[derive(Debug, Deserialize)]
struct PasskeyForm {
    token: Secret,
    #[serde(flatten)]
    next: NextPage,
    #[serde(flatten)]
    assertion: Assertion,
}

/// `GET /sign-in/passkey`.
async fn show(State(app): State<AppState>, origin: Origin, Query(next): Query<NextPage>) -> Response {
    let challenge = app.passkeys.challenge();
    let body = html! {
        form.card id="passkey" method="post" action="/sign-in/passkey"
            data-challenge=(challenge.value.reveal()) data-rp=(rp_id(&origin)) {
            p { "Your device asks for its PIN, your finger or your face, and signs you in without a password." }
            p.bad id="state" role="alert" {}
            input type="hidden" name="token" value=(challenge.token.reveal());
            input type="hidden" name="next" value=(next.path());
            @for name in ["id", "client_data", "authenticator_data", "signature", "user"] {
                input type="hidden" name=(name) value="";
            }
            // The script enables it: without the browser's answer the form is of no use.
            button.button.primary autofocus disabled { "Sign in with a passkey" }
        }
        noscript { p.bad { "This page needs JavaScript: only a script can use a passkey." } }
        p { a href={ "/sign-in?next=" (percent_encode(next.path())) } { "Sign in in another way" } }
    };
    page_with_script("Sign in", &body, "passkey.js")
}

/// `POST /sign-in/passkey`. A passkey is two factors, so no code of an authenticator app is asked for.
async fn enter(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    browser: BrowserDescription,
    PublicForm(form): PublicForm<PasskeyForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignIn);
    let account = app.passkeys.sign_in(source, &origin, &form.token, &form.assertion).await?;
    let cookie = app.sessions.sign_in(account, &browser).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(form.next.path())).into_response())
}
