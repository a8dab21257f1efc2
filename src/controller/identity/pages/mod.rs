//! HTML pages for people, rendered on the server, and the addresses of the console. Of the rendered pages
//! only those of sign-in links and passkeys need a script.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use maud::html;

use crate::AppState;
use crate::web::page::{self, page};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::{HttpError, Result};

mod approve;
mod claim;
mod connections;
mod console;
mod form;
mod invitation;
mod keys;
mod set_up;
pub mod settings;
mod sign_in;
mod sign_in_settings;
mod verify_email;
mod view_ticket;
mod workspaces;

/// Returns the routes of all pages. They are not part of the OpenAPI document.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/", any(root))
        .merge(page::router())
        .merge(console::router())
        .merge(sign_in::router())
        .merge(view_ticket::router())
        .merge(keys::router())
        .merge(connections::router())
        .merge(claim::router())
        .merge(set_up::router())
        .merge(settings::router())
        .merge(verify_email::router())
        .merge(sign_in_settings::router())
        .merge(workspaces::router())
        .merge(invitation::router())
        .merge(approve::router())
}

/// `GET /`: redirects browsers to the console, which leads to the sign-in, or to the set-up of a new service.
/// Other programs get 404.
async fn root(State(app): State<AppState>, method: Method, headers: HeaderMap) -> Result<Response> {
    if !is_visit(&method, &headers) {
        return Err(not_found().into());
    }
    let signed_in = app.sessions.signed_in(&headers).await?.is_some();
    let page = if !signed_in && app.operator.is_new().await? { "/set-up" } else { console::HOME };
    Ok(([(header::VARY, "accept, cookie")], Redirect::to(page)).into_response())
}

/// Answer to an unknown path: a page for browsers, JSON for other programs.
pub async fn unknown(method: Method, headers: HeaderMap) -> Response {
    if !is_visit(&method, &headers) {
        return HttpError(not_found()).into_response();
    }
    let body = html! {
        p { "There is no page at this address." }
        p { a href="/" { "Go to the start page" } }
        p.dim { "Programs use the API below /api. " a href="/openapi.json" { "/openapi.json" } " describes it." }
    };
    let mut response = page("Not found", &body);
    *response.status_mut() = StatusCode::NOT_FOUND;
    ([(header::VARY, "accept")], response).into_response()
}

fn not_found() -> Error {
    Error::not_found("Not found")
}

/// Whether a browser requests a page: its `Accept` names HTML.
fn is_visit(method: &Method, headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = fields.flat_map(|field| field.split(',')).filter_map(|kind| kind.split(';').next());
    matches!(*method, Method::GET | Method::HEAD)
        && kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}
