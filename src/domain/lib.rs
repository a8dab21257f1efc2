//! Floor 1: the rules of the service as pure functions and types, without I/O, async, clock, serde, HTTP or
//! SQL.

pub mod audit;
pub mod billing;
pub mod computer;
pub mod desktop;
pub mod error;
pub mod error_code;
pub mod host;
pub mod identity;
pub mod limits;
pub mod name;
pub mod network;
pub mod secret;
pub mod text;

pub use text::{filename, plural};
