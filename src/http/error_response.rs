//! HTTP responses for errors: the one place where an error kind becomes a status.
//!
//! A handler's `Err` becomes a bare response that carries the error. [`super::edge`] writes the body, because
//! only it knows the request id.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use hotdesk_domain::error::{Error, Field, Kind};
use hotdesk_wire::error::ErrorBody;

/// Response header: `true` for a stored answer (docs/api/conventions.md#idempotency).
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The error that a response carries until its body is written.
#[derive(Clone, Debug)]
pub struct CarriedError(pub Arc<Error>);

/// The status of a kind (docs/api/errors.md).
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::PaymentRequired => StatusCode::PAYMENT_REQUIRED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Mismatched | Kind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::SlowRequest => StatusCode::REQUEST_TIMEOUT,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Kind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Kind::BadGateway => StatusCode::BAD_GATEWAY,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// A domain error on its way out of a handler. The domain knows no HTTP, so this type carries the conversion
/// to a response.
#[derive(Debug)]
pub struct HttpError(pub Error);

/// The result of a handler.
pub type Result<T, E = HttpError> = std::result::Result<T, E>;

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<HttpError> for Error {
    fn from(error: HttpError) -> Self {
        error.0
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = status(self.0.kind).into_response();
        response.extensions_mut().insert(CarriedError(Arc::new(self.0)));
        response
    }
}

/// An error response with a status that no kind has (412, 416).
pub fn with_status(status: StatusCode, error: Error) -> Response {
    let mut response = HttpError(error).into_response();
    *response.status_mut() = status;
    response
}

/// The body of an error response.
pub fn body(error: &Error, request_id: &str) -> ErrorBody {
    ErrorBody {
        error: error.message.clone(),
        code: error.code.map(|code| code.as_str().to_owned()),
        request_id: Some(request_id.to_owned()),
        upstream_status: None,
        retry_after: error.retry_after,
        extra: object(&error.fields),
    }
}

fn object(fields: &[(&'static str, Field)]) -> Map<String, Value> {
    fields.iter().map(|(name, field)| ((*name).to_owned(), value(field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Text(text) => Value::from(text.as_str()),
        Field::Number(number) => Value::from(*number),
        Field::Flag(flag) => Value::from(*flag),
        Field::Object(fields) => Value::Object(object(fields)),
        Field::Rows(rows) => rows.iter().map(|row| Value::Object(object(row))).collect(),
    }
}

/// Logs the internal context of an error, which the client does not get.
pub fn log(error: &Error, request_id: &str) {
    match (&error.context, error.kind) {
        (Some(context), Kind::Internal) => tracing::error!(request_id, context, "{}", error.message),
        (Some(context), _) => tracing::info!(request_id, context, "{}", error.message),
        (None, _) => {}
    }
}

/// Renders an error response with body and headers.
pub fn render(error: &Error, request_id: &str) -> Response {
    let mut response = (status(error.kind), axum::Json(body(error, request_id))).into_response();
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if error.kind == Kind::Unauthenticated {
        // RFC 9110 section 15.5.2: a 401 names the scheme.
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
