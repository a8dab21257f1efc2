//! Floor 2: the shapes of every protocol spoken, as serde types. No logic.

pub mod action;
pub mod agent;
pub mod clipboard;
pub mod computer;
pub mod error;
pub mod file;
pub mod program;
pub mod window;
pub mod workspace;
