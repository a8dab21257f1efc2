//! Names of files and counts in texts for people.

pub mod filename;
pub mod plural;
