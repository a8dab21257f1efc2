//! Error codes of unexpected failures of clones, forks, snapshots and rollbacks (docs/lifecycle.md#clone).

use std::sync::Arc;

use axum::response::Response;

use hotdesk_domain::error::Kind;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::error_response::CarriedError;

/// Adds a code to an error that has none: `failed` for an internal failure, else that of its kind.
pub fn with_code(mut response: Response, failed: ErrorCode) -> Response {
    if let Some(CarriedError(error)) = response.extensions_mut().get_mut::<CarriedError>()
        && error.code.is_none()
    {
        Arc::make_mut(error).code =
            Some(if error.kind == Kind::Internal { failed } else { error.kind.general_code() });
    }
    response
}
