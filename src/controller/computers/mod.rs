//! Computers: look-up with access checks, fleet, runners, and views.

pub mod auto_resume;
mod bulk_delete;
mod copies;
pub mod directory;
pub mod fleet;
pub mod hosts;
mod prepared;
pub mod resize;
pub mod rollback;
pub mod rtmp;
mod runner;
pub mod snapshots;
pub mod templates;
pub mod view;
