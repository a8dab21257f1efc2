//! Page of the browsers that are signed in, `/settings/sessions`: list them, and sign them out.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::identity::pages::form::{csrf, moment};
use crate::identity::pages::settings::navigation;
use crate::web::page::{Failure, page};
use crate::{AppState, audit};
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::identity::user_agent::browser_name;
use hotdesk_store::identity::sign_in::sessions::Session;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/settings/sessions", get(list))
        .route("/settings/sessions/end", post(end))
        .route("/settings/sessions/end-others", post(end_others))
}

#[derive(Debug, Deserialize)]
struct SessionForm {
    id: String,
}

#[derive(Debug, Deserialize)]
struct EmptyForm {}

/// Path of the page.
const HERE: &str = "/settings/sessions";

/// `GET /settings/sessions`.
async fn list(State(app): State<AppState>, who: SignedIn) -> Result<Response, Failure> {
    let sessions = app.sessions.of(who.account).await?;
    let others = sessions.len() > 1;
    let body = html! {
        (navigation(HERE))
        p { "Browsers that are signed in to this account. What a browser has open ends when you sign it out." }
        div.scroll { table {
            thead { tr { th { "Browser" } th { "Address" } th { "Signed in" } th { "Last used" } th { "End" } } }
            tbody { @for session in &sessions { (row(session, &who)) } }
        } }
        @if others {
            form method="post" action="/settings/sessions/end-others" {
                (csrf(&who))
                button.button.danger { "Sign out all other browsers" }
            }
        }
    };
    Ok(page("Sessions", &body))
}

/// `POST /settings/sessions/end`.
async fn end(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<SessionForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignOut);
    app.sessions.end(who.account, &form.id).await?;
    Ok(Redirect::to(HERE).into_response())
}

/// `POST /settings/sessions/end-others`.
async fn end_others(
    State(app): State<AppState>,
    SignedInForm { who, .. }: SignedInForm<EmptyForm>,
) -> Result<Response, Failure> {
    audit::set_action(AuditAction::SignOut);
    app.sessions.end_all(who.account, Some(who.session)).await?;
    Ok(Redirect::to(HERE).into_response())
}

fn row(session: &Session, who: &SignedIn) -> Markup {
    let name = session.user_agent.as_deref().and_then(browser_name);
    let name = name.as_deref().unwrap_or("Unknown browser");
    html! {
        tr {
            td title=[session.user_agent.as_deref()] {
                (name)
                @if session.by_link { br; span.dim { "by a link of an API key" } }
            }
            td { (session.address.as_deref().unwrap_or("not known")) }
            td { (moment(session.created_at)) }
            td { (moment(session.last_used_at.unwrap_or(session.created_at))) }
            td {
                @if session.id == who.session { strong { "This browser" } } @else {
                    form method="post" action="/settings/sessions/end" {
                        (csrf(who))
                        input type="hidden" name="id" value=(session.id);
                        button.button.danger aria-label={ "Sign out " (name) } { "Sign out" }
                    }
                }
            }
        }
    }
}
