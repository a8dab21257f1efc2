//! Which pages does a person need? Plain ones, made here and served whole: no script is needed for any of them.

use axum::Router;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};

use super::Shared;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;

mod approve;
mod claim;
mod connections;
mod invitation;
mod keys;
pub mod page;
mod people;
mod set_up;
pub mod settings;
mod sign_in;

/// The console's routes. None of them is part of the documented API.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/", any(root))
        .route("/console/{release}/console.css", get(page::style))
        .merge(sign_in::router())
        .merge(keys::router())
        .merge(connections::router())
        .merge(claim::router())
        .merge(set_up::router())
        .merge(settings::router())
        .merge(people::router())
        .merge(invitation::router())
        .merge(approve::router())
}

/// `GET /`: a person's browser is led to the settings; for programs there is nothing.
async fn root(method: Method, headers: HeaderMap) -> Response {
    let looks = matches!(method, Method::GET | Method::HEAD);
    if looks && wants_page(&headers) {
        ([(header::VARY, "accept")], Redirect::to("/settings")).into_response()
    } else {
        HttpError(Error::not_found("Not found")).into_response()
    }
}

/// Whether a request names HTML among what it accepts, as browsers do.
fn wants_page(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = fields.flat_map(|field| field.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}
