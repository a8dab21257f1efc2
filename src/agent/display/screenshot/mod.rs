//! Screenshots: cache, frame names and memory for captures. [`super::screen`] takes them, `hotdesk_pictures` encodes them.
//!
//! Unchanged content is served from the cache. Every picture has a frame name, which later requests and
//! actions can refer to.

pub(super) mod cache;
pub(super) mod capture_state;
pub(super) mod frame_history;
pub mod response;
mod shm;
pub(super) mod stamp;
