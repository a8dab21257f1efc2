//! What do MCP clients and we say to each other about tokens? (RFC 6749, 7591, 8414, 9728)

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of the token endpoint (RFC 6749 section 5.1).
#[derive(Clone, Serialize, Deserialize)]
pub struct Tokens {
    /// Shown to the MCP endpoint; 256 random bits.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// Seconds for which the access token holds.
    pub expires_in: i64,
    /// Exchanged for the next two, once.
    pub refresh_token: String,
    /// Always the one scope.
    pub scope: String,
}

/// The answer to a client that is refused (RFC 6749 section 5.2).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The word.
    pub error: String,
    /// The sentence.
    pub error_description: String,
}

/// What a client says about itself, as it registers or in the document that its id leads to (RFC 7591 section 2). Other fields
/// do not matter.
#[derive(Clone, Debug, Deserialize)]
pub struct ClientMetadata {
    /// The URL that the document says it is at.
    #[serde(default)]
    pub client_id: Option<String>,
    /// What it calls itself.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Where codes may go.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// How it gets tokens.
    #[serde(default)]
    pub grant_types: Option<Vec<String>>,
    /// What it asks of the authorization endpoint.
    #[serde(default)]
    pub response_types: Option<Vec<String>>,
    /// How it would like to show who it is.
    #[serde(default)]
    pub token_endpoint_auth_method: Option<String>,
    /// A document must not have one.
    #[serde(default)]
    pub client_secret: Option<Value>,
    /// Nor this.
    #[serde(default)]
    pub client_secret_expires_at: Option<Value>,
}

/// A client as it is registered (RFC 7591 section 3.2.1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Registered {
    /// Its id.
    pub client_id: String,
    /// Seconds since the Unix epoch.
    pub client_id_issued_at: i64,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Where codes may go.
    pub redirect_uris: Vec<String>,
    /// `authorization_code` and `refresh_token`.
    pub grant_types: Vec<String>,
    /// `code`.
    pub response_types: Vec<String>,
    /// `none`: clients are public and have no secret.
    pub token_endpoint_auth_method: String,
    /// The one scope.
    pub scope: String,
}

/// What the authorization server says about itself (RFC 8414 section 2).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each field is the RFC's
pub struct ServerMetadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub registration_endpoint: String,
    pub revocation_endpoint: String,
    pub scopes_supported: Vec<String>,
    pub response_types_supported: Vec<String>,
    pub response_modes_supported: Vec<String>,
    pub grant_types_supported: Vec<String>,
    pub token_endpoint_auth_methods_supported: Vec<String>,
    pub revocation_endpoint_auth_methods_supported: Vec<String>,
    pub code_challenge_methods_supported: Vec<String>,
    pub service_documentation: String,
    /// draft-ietf-oauth-client-id-metadata-document section 5.
    pub client_id_metadata_document_supported: bool,
    /// RFC 9207 section 3.
    pub authorization_response_iss_parameter_supported: bool,
}

/// What the MCP endpoint says about itself (RFC 9728 section 2).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each field is the RFC's
pub struct ResourceMetadata {
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub scopes_supported: Vec<String>,
    pub bearer_methods_supported: Vec<String>,
    pub resource_name: String,
    pub resource_documentation: String,
}
