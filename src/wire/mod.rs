//! Floor 2: the shapes of every protocol spoken, as serde types. No logic.

pub mod action;
pub mod agent;
pub mod computer;
pub mod element;
pub mod error;
pub mod file;
pub mod workspace;
