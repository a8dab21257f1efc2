//! Data folder: its lock, its blobs, the workspace files in it, and the keys that encrypt computers in it.

pub mod blobs;
pub mod file_keys;
pub mod files;
pub mod lock;
pub mod relocation;
mod screenshots;
