//! OAuth requests, answers and metadata for MCP clients (RFC 6749, 7591, 8414, 9728).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of the token endpoint (RFC 6749 section 5.1).
#[derive(Clone, Serialize, Deserialize)]
pub struct Tokens {
    /// Access token for the MCP endpoint; 256 random bits.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// Lifetime of the access token, in seconds.
    pub expires_in: i64,
    /// Refresh token; it can be used once.
    pub refresh_token: String,
    /// Always `mcp:tools`.
    pub scope: String,
}

/// Error body (RFC 6749 section 5.2).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OAuthErrorBody {
    /// Error code.
    pub error: String,
    /// Description for the developer of the client.
    pub error_description: String,
}

/// Client metadata of a registration or of a client id document (RFC 7591 section 2). Other fields are
/// ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct ClientMetadata {
    /// URL of the client id document.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Name of the client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Redirect URIs.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// Grant types of the client.
    #[serde(default)]
    pub grant_types: Option<Vec<String>>,
    /// Response types of the client.
    #[serde(default)]
    pub response_types: Option<Vec<String>>,
    /// Requested authentication method at the token endpoint.
    #[serde(default)]
    pub token_endpoint_auth_method: Option<String>,
    /// Must be absent in a client id document.
    #[serde(default)]
    pub client_secret: Option<Value>,
    /// Must be absent in a client id document.
    #[serde(default)]
    pub client_secret_expires_at: Option<Value>,
}

/// A registered client (RFC 7591 section 3.2.1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisteredClient {
    /// Id of the client.
    pub client_id: String,
    /// Time of registration, in seconds since the Unix epoch.
    pub client_id_issued_at: i64,
    /// Name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Redirect URIs.
    pub redirect_uris: Vec<String>,
    /// `authorization_code` and `refresh_token`.
    pub grant_types: Vec<String>,
    /// `code`.
    pub response_types: Vec<String>,
    /// `none`: clients are public and have no secret.
    pub token_endpoint_auth_method: String,
    /// Always `mcp:tools`.
    pub scope: String,
}

/// Metadata of the authorization server (RFC 8414 section 2).
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

/// Metadata of the MCP endpoint (RFC 9728 section 2).
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
