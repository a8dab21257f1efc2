//! HTML pages for people, rendered on the server. None needs a script.

use axum::Router;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};

use crate::AppState;
use crate::web::page;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;

mod approve;
mod claim;
mod connections;
mod form;
mod invitation;
mod keys;
mod set_up;
pub mod settings;
mod sign_in;
mod workspaces;

/// Returns the routes of all pages. They are not part of the OpenAPI document.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/", any(root))
        .route("/console/{release}/console.css", get(page::style))
        .merge(sign_in::router())
        .merge(keys::router())
        .merge(connections::router())
        .merge(claim::router())
        .merge(set_up::router())
        .merge(settings::router())
        .merge(workspaces::router())
        .merge(invitation::router())
        .merge(approve::router())
}

/// `GET /`: redirects browsers to the settings; other programs get 404.
async fn root(method: Method, headers: HeaderMap) -> Response {
    let looks = matches!(method, Method::GET | Method::HEAD);
    if looks && wants_page(&headers) {
        ([(header::VARY, "accept")], Redirect::to("/settings")).into_response()
    } else {
        HttpError(Error::not_found("Not found")).into_response()
    }
}

/// Whether the request's `Accept` names HTML, as browsers send it.
fn wants_page(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = fields.flat_map(|field| field.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}
