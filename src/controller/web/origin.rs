//! Public origin of the service: the configured one, else the request's `Host`.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use crate::App;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;

/// Scheme, host and port without a trailing slash, for links in responses.
#[derive(Clone, Debug)]
pub struct Origin(pub String);

impl Origin {
    /// Returns host and port.
    pub fn host(&self) -> &str {
        self.0.split_once("://").map_or(self.0.as_str(), |(_, host)| host)
    }
}

impl FromRequestParts<Arc<App>> for Origin {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        if !app.config.public_url.is_empty() {
            return Ok(Self(app.config.public_url.clone()));
        }
        let host = parts.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // The value goes into responses, so only the characters of a host and a port pass.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
        if host.is_empty() || !host.chars().all(plain) {
            return Err(Error::invalid("the Host header is not a host").into());
        }
        Ok(Self(format!("http://{host}")))
    }
}
