//! Commands, shells and connections to ports of a computer, with the standard streams and ports of this machine.

pub mod bash;
pub mod forward;
mod frames;
pub mod mcp;
mod process;
pub mod shell;
pub mod ssh;
pub mod stdio;
mod terminal;
