//! What is an MCP client told that may not in? Where to get a token, so that it can (RFC 6750 section 3, RFC 9728 section 5.1).

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::discovery::RESOURCE_METADATA;
use crate::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::oauth::SCOPE;
use hotdesk_http::error_response::HttpError;

/// Why it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It showed no token.
    NoToken,
    /// It showed one that opens nothing (any more), or something else.
    BadToken,
    /// It showed an API key.
    ApiKey,
    /// Its token is for less.
    TooLittleScope,
}

/// The refusal: 401, or 403 for too little scope.
pub fn challenge(site: &Origin, why: Why) -> Response {
    respond(site, why).unwrap_or_else(|error| HttpError(error).into_response())
}

fn respond(site: &Origin, why: Why) -> Result<Response> {
    let (error, word) = match why {
        Why::NoToken => (Error::unauthenticated("Missing access token"), None),
        Why::BadToken => (Error::unauthenticated("Invalid access token"), Some("invalid_token")),
        Why::ApiKey => {
            let message = "An API key does not open /mcp: it takes an OAuth access token";
            (Error::unauthenticated(message), Some("invalid_token"))
        }
        Why::TooLittleScope => {
            (Error::forbidden("The access token is not for the MCP endpoint"), Some("insufficient_scope"))
        }
    };
    // No `error` for who showed nothing (RFC 6750 section 3.1).
    let word = word.map(|word| format!("error=\"{word}\", ")).unwrap_or_default();
    let field =
        format!("Bearer {word}resource_metadata=\"{}{RESOURCE_METADATA}\", scope=\"{SCOPE}\"", site.0);
    let field = HeaderValue::from_str(&field).map_err(Error::internal)?;
    let mut response = HttpError(error).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, field);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a39_a40_a_refusal_says_where_to_get_a_token() {
        let site = Origin("https://desk.example".to_owned());
        let told = "resource_metadata=\"https://desk.example/.well-known/oauth-protected-resource/mcp\", scope=\"mcp:tools\"";
        for (why, status, word) in [
            (Why::NoToken, 401, ""),
            (Why::BadToken, 401, "error=\"invalid_token\", "),
            (Why::ApiKey, 401, "error=\"invalid_token\", "),
            (Why::TooLittleScope, 403, "error=\"insufficient_scope\", "),
        ] {
            let response = challenge(&site, why);
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[header::WWW_AUTHENTICATE], format!("Bearer {word}{told}"));
        }
    }
}
