//! The computers: which one is meant, what it shows, who runs it.

mod copies;
pub mod directory;
mod emptying;
pub mod fleet;
mod fork;
mod reach;
pub mod resize;
pub mod rollback;
mod runner;
pub mod snapshots;
pub mod view;
