//! Floor 2: serde types of every protocol, and what follows from one value alone.
//!
//! The docs of types with `ToSchema` become the OpenAPI document.

pub mod agent;
pub mod audit;
pub mod billing;
pub mod chat;
pub mod computer;
pub mod desktop;
pub mod error;
mod field;
pub mod files;
pub mod identity;
pub mod programs;
pub mod template;
pub mod tool;
