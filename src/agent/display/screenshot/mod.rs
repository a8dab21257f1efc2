//! Screenshots: options, pixel frames, encoders, cache and frame names. [`super::screen`] takes them.
//!
//! Unchanged content is served from the cache. Every picture has a frame name, which later requests and
//! actions can refer to.

mod budget;
pub(super) mod cache;
pub(super) mod capture_state;
pub(super) mod encode;
mod encoder_buffers;
pub(super) mod frame;
pub(super) mod frame_history;
pub(super) mod options;
mod png_writer;
pub mod response;
mod shm;
pub(super) mod stamp;
