//! How are the endpoints of OAuth spoken to and how do they answer? Forms in, JSON out, nothing kept by anybody.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::App;
use hotdesk_domain::error::Error;
use hotdesk_domain::oauth::parameters::Parameters;
use hotdesk_domain::oauth::refusal::{Code, Refusal};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::extract::read_body;
use hotdesk_wire::oauth::Refused;

/// Largest form or document in bytes that a client sends: a few URLs.
pub const MAX_BYTES: usize = 16 * 1024;

/// Why there is no answer but a refusal.
#[derive(Debug)]
pub enum Failed {
    /// In OAuth's own words.
    Refused(Refusal),
    /// In the house's.
    Broken(Error),
    /// As one of too many wrong credentials.
    Guessed(Box<Response>),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let refusal = match self {
            Self::Broken(error) => return HttpError(error).into_response(),
            Self::Guessed(response) => return *response,
            Self::Refused(refusal) => refusal,
        };
        // RFC 6749 section 5.2: everything is 400, but who is not known gets 401.
        let unknown = refusal.code == Code::InvalidClient;
        let status = if unknown { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
        let body = Refused {
            error: refusal.code.name().to_owned(),
            error_description: refusal.description.to_owned(),
        };
        let mut response = answer(status, &body);
        if unknown {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An answer that nobody may keep (RFC 6749 section 5.1).
pub fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let unkept = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::PRAGMA, HeaderValue::from_static("no-cache")),
    ];
    (status, unkept, Json(body)).into_response()
}

/// The parameters in a query or a form.
///
/// # Errors
/// `invalid_request` for what is none.
pub fn parameters(text: &[u8]) -> Result<Parameters, Refusal> {
    let read = serde_urlencoded::from_bytes(text).map(Parameters);
    read.map_err(|_| Code::InvalidRequest.because("the parameters cannot be read"))
}

/// The form of a client, which has no secret and so shows none.
#[derive(Debug)]
pub struct ClientForm(pub Parameters);

impl FromRequest<Arc<App>> for ClientForm {
    type Rejection = Failed;

    async fn from_request(request: Request, _app: &Arc<App>) -> Result<Self, Failed> {
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
