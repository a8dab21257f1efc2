//! Public origin of the service: the configured one, else the request's `Host`.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
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

    /// Whether a page of this origin sent a request: it has exactly one `Origin` field, with this value.
    pub fn is_of_page(&self, headers: &HeaderMap) -> bool {
        let mut fields = headers.get_all(header::ORIGIN).iter();
        fields.next().is_some_and(|page| page == self.0.as_str()) && fields.next().is_none()
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_one_equal_origin_is_that_of_an_own_page() {
        let own = Origin("https://desk.example".to_owned());
        for (fields, expected) in [
            (&[][..], false),
            (&["https://desk.example"], true),
            (&["http://desk.example"], false),
            (&["https://desk.example:8443"], false),
            (&["https://evil.example"], false),
            (&["null"], false),
            (&["https://desk.example", "https://desk.example"], false),
            (&["https://desk.example", "https://evil.example"], false),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::ORIGIN, HeaderValue::from_static(field));
            }
            assert_eq!(own.is_of_page(&headers), expected, "{fields:?}");
        }
    }
}
