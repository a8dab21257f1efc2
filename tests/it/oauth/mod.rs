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

pub use scene::{Browser, REDIRECT, authorize_url, form, operator, parameter, token_pair};
pub use trips::{node, scenarios, suite};
