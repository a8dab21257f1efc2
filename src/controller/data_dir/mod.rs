//! Data folder: its lock, its blobs and the workspace files in it.

pub mod blobs;
pub mod files;
pub mod lock;
pub mod relocation;
mod screenshots;
