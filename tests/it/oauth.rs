//! Do MCP clients get in by the rules, and only so far? (access.md C, D, E)

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

pub use scene::{REDIRECT, asking, form, pair, said};
pub use trips::{scenarios, suite};
