//! Rules of the OAuth 2.1 authorization server for MCP clients: the code grant with S256 PKCE for public
//! clients (docs/api/mcp.md).

pub mod app_uri;
pub mod client;
pub mod client_id;
pub mod freshness;
pub mod parameters;
pub mod pkce;
pub mod redirect;
pub mod refusal;
pub mod request;
pub mod uri;

/// The only scope (docs/api/mcp.md).
pub const SCOPE: &str = "mcp:tools";
