//! Requests and responses of the OAuth endpoints: forms in, uncacheable JSON out.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::App;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::oauth::parameters::Parameters;
use hotdesk_domain::identity::oauth::refusal::{Code, Refusal};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::extract::read_body;
use hotdesk_wire::identity::oauth::OAuthErrorBody;

/// Largest form or document of a client in bytes: a few URLs.
pub const MAX_BYTES: usize = 16 * 1024;

/// Failure of an OAuth endpoint.
#[derive(Debug)]
pub enum OAuthFailure {
    /// An OAuth error (RFC 6749 section 5.2).
    Refusal(Refusal),
    /// An error of the service.
    Internal(Error),
    /// The 429 after too many wrong credentials.
    TooManyGuesses(Box<Response>),
}

impl From<Refusal> for OAuthFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Error> for OAuthFailure {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

impl IntoResponse for OAuthFailure {
    fn into_response(self) -> Response {
        let refusal = match self {
            Self::Internal(error) => return HttpError(error).into_response(),
            Self::TooManyGuesses(response) => return *response,
            Self::Refusal(refusal) => refusal,
        };
        // RFC 6749 section 5.2: every error is 400, but an unknown client gets 401.
        let unknown_client = refusal.code == Code::InvalidClient;
        let status = if unknown_client { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
        let body = OAuthErrorBody {
            error: refusal.code.name().to_owned(),
            error_description: refusal.description.to_owned(),
        };
        let mut response = answer(status, &body);
        if unknown_client {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Builds a response that is never cached (RFC 6749 section 5.1).
pub fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let no_store = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::PRAGMA, HeaderValue::from_static("no-cache")),
    ];
    (status, no_store, Json(body)).into_response()
}

/// Parses the parameters of a query or form.
///
/// # Errors
/// `invalid_request` when they cannot be parsed.
pub fn parameters(text: &[u8]) -> Result<Parameters, Refusal> {
    let read = serde_urlencoded::from_bytes(text).map(Parameters);
    read.map_err(|_| Code::InvalidRequest.because("the parameters cannot be read"))
}

/// Form of a public client, which sends no credential.
#[derive(Debug)]
pub struct ClientForm(pub Parameters);

impl FromRequest<Arc<App>> for ClientForm {
    type Rejection = OAuthFailure;

    async fn from_request(request: Request, _app: &Arc<App>) -> Result<Self, OAuthFailure> {
        let headers = request.headers();
        if headers.contains_key(header::AUTHORIZATION) {
            return Err(Code::InvalidClient
                .because("clients are public: send client_id and no credential")
                .into());
        }
        let kind =
            headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Code::InvalidRequest
                .because("the body must be application/x-www-form-urlencoded")
                .into());
        }
        let body = read_body(request.into_body(), MAX_BYTES).await?;
        Ok(Self(parameters(&body)?))
    }
}
