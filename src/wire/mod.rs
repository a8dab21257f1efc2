//! Floor 2: the shapes of every protocol spoken, as serde types. No logic.

pub mod action;
pub mod agent;
pub mod audio;
pub mod batch;
pub mod clipboard;
pub mod clone;
pub mod computer;
pub mod effect;
pub mod element;
pub mod error;
pub mod event;
pub mod exec;
pub mod file;
pub mod guest_file;
mod object;
pub mod process;
pub mod program;
pub mod recording;
pub mod resize;
pub mod screenshot;
pub mod selftest;
pub mod stream;
pub mod suspension;
pub mod terminal;
pub mod ticket;
pub mod window;
pub mod workspace;
