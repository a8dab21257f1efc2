//! By which rules does an MCP client get a token? OAuth 2.1 as interface.md has it: the code grant with S256 PKCE, public clients.

pub mod client;
pub mod client_id;
pub mod freshness;
pub mod parameters;
pub mod pkce;
pub mod redirect;
pub mod refusal;
pub mod request;
mod uri;

/// The one scope there is (interface.md "Browser authorization for the MCP endpoint").
pub const SCOPE: &str = "mcp:tools";
