//! Commands, background processes, terminals and desktop programs.

pub mod exec;
pub mod process;
pub mod program;
pub mod service;
pub mod terminal;
pub mod trigger;
