//! Commands and shells on a computer, with the standard streams of this program.

pub mod bash;
mod frames;
mod interrupts;
mod process;
pub mod shell;
pub mod ssh;
pub mod stdio;
mod terminal;
