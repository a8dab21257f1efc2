//! `WWW-Authenticate` challenges of the MCP endpoint (RFC 6750 section 3, RFC 9728 section 5.1).

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::discovery::RESOURCE_METADATA;
use crate::web::origin::Origin;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::oauth::SCOPE;
use hotdesk_http::error_response::HttpError;

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenProblem {
    /// No token was sent.
    NoToken,
    /// The token is invalid or expired.
    BadToken,
    /// An API key was sent.
    ApiKey,
    /// The token has too little scope.
    TooLittleScope,
}

/// Returns the refusal: 401, or 403 for too little scope.
pub fn challenge(site: &Origin, why: TokenProblem) -> Response {
    respond(site, why).unwrap_or_else(|error| HttpError(error).into_response())
}

fn respond(site: &Origin, why: TokenProblem) -> Result<Response> {
    let (error, word) = match why {
        TokenProblem::NoToken => (Error::unauthenticated("Missing access token"), None),
        TokenProblem::BadToken => (Error::unauthenticated("Invalid access token"), Some("invalid_token")),
        TokenProblem::ApiKey => {
            let message = "API keys are not accepted at /mcp: send an OAuth access token";
            (Error::unauthenticated(message), Some("invalid_token"))
        }
        TokenProblem::TooLittleScope => {
            (Error::forbidden("The access token is not for the MCP endpoint"), Some("insufficient_scope"))
        }
    };
    // Without a token there is no `error` (RFC 6750 section 3.1).
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
        let metadata = "resource_metadata=\"https://desk.example/.well-known/oauth-protected-resource/mcp\", \
            scope=\"mcp:tools\"";
        for (why, status, word) in [
            (TokenProblem::NoToken, 401, ""),
            (TokenProblem::BadToken, 401, "error=\"invalid_token\", "),
            (TokenProblem::ApiKey, 401, "error=\"invalid_token\", "),
            (TokenProblem::TooLittleScope, 403, "error=\"insufficient_scope\", "),
        ] {
            let response = challenge(&site, why);
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[header::WWW_AUTHENTICATE], format!("Bearer {word}{metadata}"));
        }
    }
}
