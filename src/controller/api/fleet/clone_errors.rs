//! Default error codes: every error body of clones, forks, snapshots and rollbacks has a code
//! (docs/lifecycle.md#clone).

use std::sync::Arc;

use axum::response::Response;

use hotdesk_domain::error::Kind;
use hotdesk_http::error_response::CarriedError;

/// Adds a code to an error body that has none: that of its kind, or `failed` for an internal failure.
pub fn with_code(mut response: Response, failed: &'static str) -> Response {
    if let Some(CarriedError(error)) = response.extensions_mut().get_mut::<CarriedError>()
        && error.code.is_none()
    {
        Arc::make_mut(error).code = Some(code(error.kind, failed));
    }
    response
}

fn code(kind: Kind, failed: &'static str) -> &'static str {
    match kind {
        Kind::Invalid | Kind::Mismatched | Kind::TooLarge | Kind::UnsupportedMedia => "INVALID_REQUEST",
        Kind::Unauthenticated => "UNAUTHENTICATED",
        Kind::PaymentRequired => "PAYMENT_REQUIRED",
        Kind::Forbidden => "ACCESS_DENIED",
        Kind::NotFound => "NOT_FOUND",
        Kind::Conflict => "CONFLICT",
        Kind::RateLimited => "RATE_LIMITED",
        Kind::Internal => failed,
        Kind::Unavailable => "UNAVAILABLE",
        Kind::TimedOut => "TIMED_OUT",
    }
}
