//! MCP server: access control, protocol and tools (docs/api/mcp.md, docs/authentication-rules.md).

mod conformance;
mod edge;
mod lifecycle;
mod log;
mod python;
pub mod resources;
pub mod scene;
mod schemas;
mod stdio;
mod streams;
mod tools;
mod typescript;
mod typescript_sdk;
mod waits;
