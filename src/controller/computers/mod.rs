//! The computers: which one is meant, what it shows, who runs it.

mod copies;
pub mod directory;
pub mod fleet;
pub mod resize;
mod runner;
pub mod view;
