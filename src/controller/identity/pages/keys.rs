//! The page of API keys: make one with a name and a scope, see its text once, delete it.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Failure, csrf, page};
use super::settings::navigation;
use crate::Shared;
use crate::auth::session::{Posted, SignedIn};
use hotdesk_domain::access::Intent;
use hotdesk_domain::error::Result;
use hotdesk_domain::name;
use hotdesk_wire::key::Key;

/// The page and its forms.
pub fn router() -> Router<Shared> {
    Router::new().route("/settings/keys", get(show).post(make)).route("/settings/keys/delete", post(delete))
}

#[derive(Debug, Deserialize)]
struct NewKey {
    name: String,
    /// Empty: account-wide.
    #[serde(default)]
    workspace_id: String,
}

#[derive(Debug, Deserialize)]
struct Which {
    id: String,
}

/// Where it is.
const HERE: &str = "/settings/keys";

/// `GET /settings/keys`.
async fn show(State(app): State<Shared>, who: SignedIn) -> Result<Response, Failure> {
    let body = html! { (navigation(HERE)) (list(&app, &who).await?) (form(&app, &who).await?) };
    Ok(page("API keys", &body))
}

/// `POST /settings/keys`: the one page that shows the new key's text.
async fn make(State(app): State<Shared>, posted: Posted<NewKey>) -> Result<Response, Failure> {
    let Posted { who, form: wanted } = posted;
    let answer = StatusCode::CREATED;
    let workspace = Some(wanted.workspace_id.as_str());
    let (key, text) = app.mint_key(&who.caller(Intent::Change), &wanted.name, workspace, answer).await?;
    let shown = html! {
        (navigation(HERE))
        section.card role="status" {
            p { "This is the key " strong { (key.name) } ". Copy it now: it is not shown again." }
            p.code { (text.reveal()) }
        }
        (list(&app, &who).await?)
        (form(&app, &who).await?)
    };
    Ok((answer, page("API keys", &shown)).into_response())
}

/// `POST /settings/keys/delete`.
async fn delete(State(app): State<Shared>, posted: Posted<Which>) -> Result<Response, Failure> {
    let caller = posted.who.caller(Intent::Change);
    app.delete_key(&caller, &posted.form.id, StatusCode::SEE_OTHER).await?;
    Ok(Redirect::to(HERE).into_response())
}

async fn list(app: &Shared, who: &SignedIn) -> Result<Markup> {
    let keys = app.visible_keys(&who.caller(Intent::Read), None).await?;
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        let reaches = key.workspace.as_ref().map(|workspace| workspace.name.clone());
        rows.push((reaches, app.key_record(key)));
    }
    Ok(html! {
        @if rows.is_empty() {
            p { "There are no keys yet." }
        } @else {
            table {
                thead { tr { th { "Name" } th { "Key" } th { "Reaches" } th { "Last used" } th { "Delete" } } }
                tbody { @for (reaches, key) in &rows { (row(who, reaches.as_deref(), key)) } }
            }
        }
    })
}

fn row(who: &SignedIn, reaches: Option<&str>, key: &Key) -> Markup {
    let used = key.last_used_at.as_deref().map_or_else(|| "never".to_owned(), in_words);
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
                    button.danger aria-label={ "Delete the key " (key.name) } { "Delete" }
                }
            }
        }
    }
}

/// An ISO 8601 time of UTC for people, to the minute as last uses are kept.
fn in_words(at: &str) -> String {
    let to_the_minute = at.get(..16).unwrap_or(at);
    format!("{} UTC", to_the_minute.replace('T', " "))
}

async fn form(app: &Shared, who: &SignedIn) -> Result<Markup> {
    let workspaces = app.store.workspaces(who.account).await?;
    Ok(html! {
        h2 { "Make a key" }
        form.card method="post" action="/settings/keys" {
            (csrf(who))
            label {
                span { "Name" }
                input type="text" name="name" maxlength=(name::MAX_CHARACTERS) autocomplete="off" required;
            }
            label {
                span { "Reaches" }
                select name="workspace_id" {
                    option value="" { "all workspaces" }
                    @for workspace in &workspaces { option value=(workspace.id) { (workspace.name) } }
                }
            }
            button { "Make it" }
        }
    })
}
