//! Data folder: its lock, its disk, the blobs, workspace files and download caches in it, and the keys that encrypt computers.

pub mod blobs;
pub mod disk;
pub mod downloads;
pub mod file_keys;
pub mod files;
pub mod lock;
pub mod pictures;
pub mod relocation;
mod screenshots;
