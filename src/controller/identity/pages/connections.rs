//! Page of a person's MCP client connections, `/settings/connections`, A63 (docs/authentication-rules.md).

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{csrf, moment};
use super::settings::navigation;
use crate::AppState;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use hotdesk_http::extract::Path;
use hotdesk_store::identity::oauth::grants::OauthConnection;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/settings/connections", get(list)).route("/settings/connections/{id}/end", post(end))
}

#[derive(Debug, Deserialize)]
struct EmptyForm {}

/// Path of the page.
const HERE: &str = "/settings/connections";

/// `GET /settings/connections`.
async fn list(State(app): State<AppState>, who: SignedIn) -> Result<Response, Failure> {
    let connections = app.store.connections(who.account).await?;
    Ok(page("Connections", &html! { (navigation(HERE)) (table(&connections, &who)) }))
}

/// `POST /settings/connections/{id}/end`: ends a connection. Its tokens are refused from the next request on.
async fn end(
    State(app): State<AppState>,
    Path(id): Path<String>,
    form: SignedInForm<EmptyForm>,
) -> Result<Response, Failure> {
    app.grants.revoke(form.who.account, &id).await?;
    Ok(Redirect::to(HERE).into_response())
}

fn table(connections: &[OauthConnection], who: &SignedIn) -> Markup {
    html! {
        p { "Programs to which you gave access to a workspace in a browser (MCP). Each connection expires 30 days after it was created." }
        @if connections.is_empty() { p.dim { "None. A program asks for access when you add this service to it as an MCP server." } } @else {
            div.scroll { table {
                thead { tr { th { "Program" } th { "Workspace" } th { "Since" } th { "Last used" } th { "Expires" } th { "End" } } }
                tbody { @for connection in connections { (row(connection, who)) } }
            } }
        }
    }
}

fn row(connection: &OauthConnection, who: &SignedIn) -> Markup {
    let name = connection.client_name.as_deref().unwrap_or(&connection.client_id);
    html! {
        tr {
            td { (name) br; span.dim.code { (connection.client_id) } }
            td { (connection.workspace) }
            td { (moment(connection.created_at)) }
            td { @match connection.used_at { Some(at) => (moment(at)), None => "not yet" } }
            td { (moment(connection.expires_at)) }
            td {
                form method="post" action={ "/settings/connections/" (connection.id) "/end" } {
                    (csrf(who))
                    button.button.danger aria-label={ "End the connection of " (name) } { "End" }
                }
            }
        }
    }
}
