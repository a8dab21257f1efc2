//! What do tests boot, and how do they ask? Real processes in temporary folders.

pub mod agent;
