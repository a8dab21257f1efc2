//! Why is a client refused? A word that an RFC defines, and a sentence for whoever debugs the client.

/// A refusal of the authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The word.
    pub code: Code,
    /// The sentence; it never quotes what was sent.
    pub description: &'static str,
}

/// The words (RFC 6749 sections 4.1.2.1 and 5.2, RFC 8707 section 2, RFC 7591 section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A parameter is missing, repeated or malformed.
    InvalidRequest,
    /// The client is not known.
    InvalidClient,
    /// The code or the refresh token opens nothing (any more).
    InvalidGrant,
    /// Another grant than the two there are.
    UnsupportedGrantType,
    /// Another response than a code.
    UnsupportedResponseType,
    /// Another scope than the one there is.
    InvalidScope,
    /// A token for another resource is wanted.
    InvalidTarget,
    /// The person said no.
    AccessDenied,
    /// A redirect URI that may not be registered.
    InvalidRedirectUri,
    /// Anything else that may not be registered.
    InvalidClientMetadata,
}

impl Code {
    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
        }
    }

    /// The refusal with this word.
    pub fn because(self, description: &'static str) -> Refusal {
        Refusal { code: self, description }
    }
}
