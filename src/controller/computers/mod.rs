//! The computers: which one is meant, what it shows, who runs it.

pub mod directory;
pub mod fleet;
mod runner;
pub mod view;
