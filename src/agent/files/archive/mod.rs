//! Folders as tar archives: download and extraction.

mod extract;
mod merge;
pub mod pack;
pub mod prefix;
mod tar_entries;
pub mod unfinished;
pub mod unpack;
mod walk;
