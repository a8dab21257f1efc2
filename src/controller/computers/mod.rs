//! Computers: look-up with access checks, fleet, runners, and views.

pub mod auto_resume;
mod bulk_delete;
mod clone;
pub mod directory;
pub mod fleet;
mod fork;
mod prepared;
pub mod resize;
pub mod rollback;
pub mod rtmp;
mod runner;
pub mod snapshots;
pub mod templates;
pub mod view;
