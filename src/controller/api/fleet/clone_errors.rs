//! Default error codes: every error body of clones, forks, snapshots and rollbacks has a code
//! (docs/lifecycle.md#clone).

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use hotdesk_domain::error::Kind;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::CarriedError;

/// Beginnings of the routes whose errors always have a code, and the code of an internal failure.
const CODED_ROUTES: [(&str, ErrorCode); 4] = [
    ("/computers/{id}/clone", ErrorCode::CloneFailed),
    ("/computers/{id}/fork", ErrorCode::ForkFailed),
    ("/computers/{id}/snapshots", ErrorCode::SnapshotFailed),
    ("/computers/{id}/rollback", ErrorCode::SnapshotFailed),
];

/// Layer that adds a code to an error body of [`CODED_ROUTES`] that has none: that of its kind, or the route's
/// for an internal failure. Outside of the access check, whose errors get one too.
pub async fn complete(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let failed =
        CODED_ROUTES.iter().find(|(beginning, _)| route.starts_with(beginning)).map(|(_, code)| *code);
    let mut response = next.run(request).await;
    if let Some(failed) = failed
        && let Some(CarriedError(error)) = response.extensions_mut().get_mut::<CarriedError>()
        && error.code.is_none()
    {
        Arc::make_mut(error).code = Some(code(error.kind, failed));
    }
    response
}

fn code(kind: Kind, failed: ErrorCode) -> ErrorCode {
    match kind {
        Kind::Invalid
        | Kind::Mismatched
        | Kind::Unprocessable
        | Kind::TooLarge
        | Kind::SlowRequest
        | Kind::UnsupportedMedia => ErrorCode::InvalidRequest,
        Kind::Unauthenticated => ErrorCode::Unauthenticated,
        Kind::PaymentRequired => ErrorCode::PaymentRequired,
        Kind::Forbidden => ErrorCode::AccessDenied,
        Kind::NotFound => ErrorCode::NotFound,
        Kind::Conflict => ErrorCode::Conflict,
        Kind::RateLimited => ErrorCode::RateLimited,
        Kind::Internal => failed,
        Kind::BadGateway | Kind::Unavailable => ErrorCode::Unavailable,
        Kind::TimedOut => ErrorCode::TimedOut,
    }
}
