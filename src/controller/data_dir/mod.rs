//! Data folder: its lock, its blobs, the workspace files and download caches in it, and the keys that encrypt computers in it.

pub mod blobs;
pub mod downloads;
pub mod file_keys;
pub mod files;
pub mod lock;
pub mod relocation;
mod screenshots;
