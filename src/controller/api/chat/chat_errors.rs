//! Errors of chat completions in the form of the OpenAI API: `{"error": {"type", "message", "code"}}`.

use axum::Json;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use hotdesk_domain::error::{Error, Field, Kind};
use hotdesk_http::edge::RequestId;
use hotdesk_http::error_response::{self, CarriedError};
use hotdesk_wire::chat::completion::{ChatError, ChatErrorBody};

/// The only route with this form.
const ROUTE: &str = "/v1/chat/completions";
/// Tells clients of the OpenAI API whether they may repeat a request by themselves (openai-python,
/// `_should_retry`). They repeat 409, 429 and 5xx otherwise, so a run would be executed twice.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Header of a response with the id of the run's thread.
pub(super) const THREAD_ID: HeaderName = HeaderName::from_static("x-thread-id");
/// Field of an error with the id of the thread of a run.
const THREAD_FIELD: &str = "thread_id";
/// Field of an error with what is left of a client's cap, in cents.
const BALANCE_FIELD: &str = "balance_cents";

/// Layer that writes the bodies of this route's errors. Outside of the layers that refuse requests.
pub(crate) async fn shape(request: Request, next: Next) -> Response {
    let is_chat = request.extensions().get::<MatchedPath>().is_some_and(|route| route.as_str() == ROUTE);
    if !is_chat {
        return next.run(request).await;
    }
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default();
    let mut response = next.run(request).await;
    let Some(CarriedError(error)) = response.extensions_mut().remove::<CarriedError>() else {
        return response;
    };
    error_response::log(&error, &id);
    let mut shaped = (response.status(), Json(body(&error, &id))).into_response();
    for (name, value) in response.headers() {
        if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE {
            shaped.headers_mut().append(name.clone(), value.clone());
        }
    }
    let headers = shaped.headers_mut();
    if let Some(seconds) = error.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.replayed {
        headers.insert(error_response::REPLAYED, HeaderValue::from_static("true"));
    }
    let may_repeat = if is_repeatable(&error) { "true" } else { "false" };
    headers.insert(SHOULD_RETRY, HeaderValue::from_static(may_repeat));
    let thread = text_field(&error, THREAD_FIELD).and_then(|id| HeaderValue::from_str(id).ok());
    if let Some(thread) = thread {
        headers.insert(THREAD_ID, thread);
    }
    shaped
}

/// The body of an error.
pub(super) fn body(error: &Error, request_id: &str) -> ChatErrorBody {
    let extra = error_response::body(error, request_id).extra;
    let balance = error.fields.iter().find_map(|(name, field)| match field {
        Field::Number(number) if *name == BALANCE_FIELD => Some(*number),
        Field::Number(_) | Field::Text(_) | Field::Flag(_) | Field::Object(_) | Field::Rows(_) => None,
    });
    let (kind, code) = kind_and_code(error.kind);
    let code = error.code.map_or(code, |code| code.as_str());
    ChatErrorBody {
        error: ChatError {
            kind: kind.to_owned(),
            message: error.message.clone(),
            code: code.to_owned(),
            request_id: request_id.to_owned(),
            extra,
        },
        balance_cents: balance,
    }
}

/// Whether the same request may be sent again: it was refused before it did anything.
fn is_repeatable(error: &Error) -> bool {
    error.retry_after.is_some() && text_field(error, THREAD_FIELD).is_none()
}

fn text_field<'a>(error: &'a Error, wanted: &str) -> Option<&'a str> {
    error.fields.iter().find_map(|(name, field)| match field {
        Field::Text(text) if *name == wanted => Some(text.as_str()),
        Field::Text(_) | Field::Number(_) | Field::Flag(_) | Field::Object(_) | Field::Rows(_) => None,
    })
}

/// The type of a kind of failure, and its code when the failure has none of its own
/// (docs/api/chat.md#errors).
fn kind_and_code(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Invalid | Kind::Mismatched | Kind::Unprocessable | Kind::UnsupportedMedia => {
            ("invalid_request_error", "invalid_request")
        }
        Kind::SlowRequest => ("invalid_request_error", "request_timeout"),
        Kind::TooLarge => ("invalid_request_error", "request_too_large"),
        Kind::Unauthenticated => ("authentication_error", "invalid_api_key"),
        Kind::PaymentRequired => ("billing_error", "payment_required"),
        Kind::Forbidden => ("permission_error", "access_denied"),
        Kind::NotFound => ("not_found_error", "not_found"),
        Kind::Conflict => ("conflict_error", "conflict"),
        Kind::RateLimited => ("rate_limit_error", "rate_limit_exceeded"),
        Kind::Internal => ("api_error", "internal_error"),
        Kind::Unavailable | Kind::BadGateway => ("api_error", "unavailable"),
        Kind::TimedOut => ("api_error", "timed_out"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotdesk_domain::error_code::ErrorCode;

    #[test]
    fn bodies_have_the_form_of_the_openai_api() {
        let exhausted =
            Error::payment_required("Used up").code(ErrorCode::CreditsExhausted).number("balance_cents", 0);
        for (error, expected) in [
            (
                Error::unauthenticated("No key"),
                json!({"error": {"type": "authentication_error", "message": "No key", "code": "invalid_api_key",
                    "request_id": "1"}}),
            ),
            (
                exhausted,
                json!({"error": {"type": "billing_error", "message": "Used up", "code": "credits_exhausted",
                    "request_id": "1", "balance_cents": 0}, "balance_cents": 0}),
            ),
            (
                Error::internal("private"),
                json!({"error": {"type": "api_error", "message": "Internal server error", "code": "internal_error",
                    "request_id": "1"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(body(&error, "1")).unwrap(), expected);
        }
    }

    #[test]
    fn a_request_that_began_a_run_is_never_repeated() {
        let limited = Error::rate_limited(1);
        assert!(is_repeatable(&limited));
        assert!(!is_repeatable(&limited.text("thread_id", "thr_1")));
        assert!(!is_repeatable(&Error::conflict("busy")));
    }
}
