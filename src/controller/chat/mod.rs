//! Runs of language models on computers, and the threads that record them (docs/api/chat.md).

pub mod runs;
pub mod threads;
