//! Chat: threads of language models with computers.

pub mod thread;
