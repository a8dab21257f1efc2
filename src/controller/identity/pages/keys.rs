//! Page of API keys: create, list and delete.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::csrf;
use super::settings::navigation;
use crate::AppState;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use hotdesk_domain::audit::AuditOutcome;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::access::Intent;
use hotdesk_domain::name;
use hotdesk_wire::identity::api_key::ApiKey;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/settings/keys", get(show).post(make)).route("/settings/keys/delete", post(delete))
}

#[derive(Debug, Deserialize)]
struct NewKeyForm {
    name: String,
    /// Workspace id; empty for an account-wide key.
    #[serde(default)]
    workspace_id: String,
}

#[derive(Debug, Deserialize)]
struct KeyForm {
    id: String,
}

/// Path of the page.
const HERE: &str = "/settings/keys";

/// `GET /settings/keys`.
async fn show(State(app): State<AppState>, who: SignedIn) -> Result<Response, Failure> {
    let body = html! { (navigation(HERE)) (list(&app, &who).await?) (form(&app, &who).await?) };
    Ok(page("API keys", &body))
}

/// `POST /settings/keys`. Its response is the only page that shows the new key's text.
async fn make(State(app): State<AppState>, submitted: SignedInForm<NewKeyForm>) -> Result<Response, Failure> {
    let SignedInForm { who, form: wanted } = submitted;
    let workspace = Some(wanted.workspace_id.as_str());
    let (key, text) = app.keys.mint(&who.caller(Intent::Change), &wanted.name, workspace).await?;
    let shown = html! {
        (navigation(HERE))
        section.card role="status" {
            p { "This is the key " strong { (key.name) } ". Copy it now: it is not shown again." }
            p.code { (text.reveal()) }
        }
        (list(&app, &who).await?)
        (form(&app, &who).await?)
    };
    Ok((StatusCode::CREATED, page("API keys", &shown)).into_response())
}

/// `POST /settings/keys/delete`.
async fn delete(State(app): State<AppState>, submitted: SignedInForm<KeyForm>) -> Result<Response, Failure> {
    let caller = submitted.who.caller(Intent::Change);
    app.keys.delete(&caller, &submitted.form.id, AuditOutcome::REDIRECTED).await?;
    Ok(Redirect::to(HERE).into_response())
}

async fn list(app: &AppState, who: &SignedIn) -> Result<Markup> {
    let keys = app.keys.visible(&who.caller(Intent::Read), None).await?;
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        let reaches = key.workspace.as_ref().map(|workspace| workspace.name.clone());
        rows.push((reaches, app.keys.record(key)));
    }
    Ok(html! {
        @if rows.is_empty() {
            p { "There are no keys yet. A program needs one to use the API: create it here." }
        } @else {
            div.scroll { table {
                thead { tr { th { "Name" } th { "Key" } th { "Access to" } th { "Last used" } th { "Delete" } } }
                tbody { @for (reaches, key) in &rows { (row(who, reaches.as_deref(), key)) } }
            } }
        }
    })
}

fn row(who: &SignedIn, reaches: Option<&str>, key: &ApiKey) -> Markup {
    let used = key.last_used_at.as_deref().map_or_else(|| "never".to_owned(), minute_text);
    html! {
        tr {
            td { (key.name) }
            td { code { (key.prefix) "…" (key.last_four) } }
            td { (reaches.unwrap_or("all workspaces")) }
            td { (used) }
            td {
                form method="post" action="/settings/keys/delete" {
                    (csrf(who))
                    input type="hidden" name="id" value=(key.id);
                    button.button.danger aria-label={ "Delete the key " (key.name) } { "Delete" }
                }
            }
        }
    }
}

/// Renders an ISO 8601 time to the minute, because last uses are stored once a minute.
fn minute_text(at: &str) -> String {
    let to_the_minute = at.get(..16).unwrap_or(at);
    format!("{} UTC", to_the_minute.replace('T', " "))
}

async fn form(app: &AppState, who: &SignedIn) -> Result<Markup> {
    let workspaces = app.store.workspaces(who.account).await?;
    Ok(html! {
        h2 { "Create a key" }
        form.card method="post" action="/settings/keys" {
            (csrf(who))
            label.field {
                span { "Name" }
                input type="text" name="name" maxlength=(name::MAX_CHARACTERS) autocomplete="off" required;
            }
            label.field {
                span { "Access to" }
                select name="workspace_id" {
                    option value="" { "all workspaces" }
                    @for workspace in &workspaces { option value=(workspace.id) { (workspace.name) } }
                }
            }
            button.button.primary { "Create" }
        }
    })
}
