//! HTTP Strict Transport Security (RFC 6797) of services with an https address.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::AppState;

/// Browsers use https alone for a year, the shortest time that lists of such services accept.
const POLICY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Layer that tells browsers to reach the service by https alone, if `public_url` is https. Other hosts below
/// its name are not included, because hotdesk does not own them.
pub async fn announce(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if app.config.public_url.starts_with("https://") {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, POLICY);
    }
    response
}
