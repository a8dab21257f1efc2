//! Files of a workspace and of a computer.

pub mod guest_file;
pub mod workspace_file;
