//! Does the MCP server let in whom it should, as its protocol says, and do its tools do what they say? (access.md F)

mod conformance;
mod edge;
mod lifecycle;
mod log;
mod python;
pub mod scene;
mod tools;
