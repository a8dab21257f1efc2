//! Which code has an error that has none of its own? interface.md "Clone" rule 6: every error body of a clone carries one;
//! so do those of forks, snapshots and rollbacks.

use std::sync::Arc;

use axum::response::Response;

use hotdesk_domain::error::Kind;
use hotdesk_http::error_response::CarriedError;

/// Gives an error body without a code that of its kind; `failed` is the one of a failure here.
pub fn coded(mut response: Response, failed: &'static str) -> Response {
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
