//! Computers: look-up with access checks, fleet, runners, and views.

mod auto_resume;
mod bulk_delete;
mod clone;
pub mod directory;
pub mod fleet;
mod fork;
pub mod resize;
pub mod rollback;
mod runner;
pub mod snapshots;
pub mod view;
