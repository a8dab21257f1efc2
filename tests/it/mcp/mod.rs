//! MCP server: access control, protocol and tools (docs/api/mcp.md, docs/authentication-rules.md).

mod conformance;
mod edge;
mod lifecycle;
mod log;
mod python;
mod resources;
pub mod scene;
mod stdio;
mod streams;
mod tools;
