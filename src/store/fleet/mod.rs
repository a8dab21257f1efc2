//! Tables of computers, their snapshots, their saved state and their chat threads.

pub mod changes;
pub mod computers;
pub mod copies;
pub mod find;
pub mod hardware;
pub mod isolation;
pub mod passwords;
pub mod prepared;
pub mod saved_state;
pub mod snapshots;
pub(crate) mod status;
pub mod streams;
pub mod threads;
pub mod timeline;
