//! OAuth authorization of MCP clients (docs/authentication-rules.md).

mod audit;
mod authorize;
mod documents;
mod fetching;
mod metadata;
mod pages;
mod registration;
mod scene;
mod settings;
mod tls;
mod tokens;
mod trips;

pub use scene::{REDIRECT, authorize_url, form, parameter, token_pair};
pub use trips::{scenarios, suite};
