//! OAuth errors: a code that an RFC defines, and a description for the developer of the client.

/// An error of the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error code.
    pub code: Code,
    /// The description; it never quotes the request.
    pub description: &'static str,
}

/// Error codes (RFC 6749 sections 4.1.2.1 and 5.2, RFC 8707 section 2, RFC 7591 section 3.2.2, OpenID
/// Connect Core 1.0 section 3.1.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A parameter is missing, repeated or malformed.
    InvalidRequest,
    /// The client is unknown.
    InvalidClient,
    /// The code or refresh token is invalid, expired or used.
    InvalidGrant,
    /// The grant type is not supported.
    UnsupportedGrantType,
    /// The response type is not `code`.
    UnsupportedResponseType,
    /// The request is in a request object.
    RequestNotSupported,
    /// The request is at a URI.
    RequestUriNotSupported,
    /// The scope is unknown.
    InvalidScope,
    /// The resource is not the MCP endpoint.
    InvalidTarget,
    /// The person denied the request.
    AccessDenied,
    /// A redirect URI cannot be registered.
    InvalidRedirectUri,
    /// Other client metadata is invalid.
    InvalidClientMetadata,
}

impl Code {
    /// Returns the code in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
        }
    }

    /// Creates an error with this code.
    pub fn because(self, description: &'static str) -> Refusal {
        Refusal { code: self, description }
    }
}
