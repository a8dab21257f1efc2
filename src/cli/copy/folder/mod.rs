//! Copies of folders, as tar archives (docs/api/files.md#folders-as-tar).

pub mod download;
mod plan;
pub mod upload;
