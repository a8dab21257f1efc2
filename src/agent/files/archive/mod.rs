//! Folders as tar archives: download and extraction.

mod merge;
pub mod pack;
mod tar_entries;
pub mod unpack;
