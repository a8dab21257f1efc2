//! Default error codes: every error body of clones, forks, snapshots and rollbacks has a code
//! (docs/lifecycle.md#clone).

use std::sync::Arc;

use axum::response::Response;

use hotdesk_domain::error::Kind;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::CarriedError;

/// Adds a code to an error body that has none: that of its kind, or `failed` for an internal failure.
pub fn with_code(mut response: Response, failed: ErrorCode) -> Response {
    if let Some(CarriedError(error)) = response.extensions_mut().get_mut::<CarriedError>()
        && error.code.is_none()
    {
        Arc::make_mut(error).code = Some(code(error.kind, failed));
    }
    response
}

fn code(kind: Kind, failed: ErrorCode) -> ErrorCode {
    match kind {
        Kind::Invalid | Kind::Mismatched | Kind::TooLarge | Kind::SlowRequest | Kind::UnsupportedMedia => {
            ErrorCode::InvalidRequest
        }
        Kind::Unauthenticated => ErrorCode::Unauthenticated,
        Kind::PaymentRequired => ErrorCode::PaymentRequired,
        Kind::Forbidden => ErrorCode::AccessDenied,
        Kind::NotFound => ErrorCode::NotFound,
        Kind::Conflict => ErrorCode::Conflict,
        Kind::RateLimited => ErrorCode::RateLimited,
        Kind::Internal => failed,
        Kind::Unavailable => ErrorCode::Unavailable,
        Kind::TimedOut => ErrorCode::TimedOut,
    }
}
