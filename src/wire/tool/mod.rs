//! Arguments and results of the MCP tools (docs/api/mcp.md). The docs of the fields are sent to models.

pub mod control;
pub mod desktop;
pub mod doctor;
pub mod execution;
pub mod files;
pub mod fleet;
pub mod templates;
pub mod threads;
pub mod waiting;
