//! Runs of language models on computers: completions, the prompt socket, bounds and ends (docs/api/chat.md).
//! The models are scripted.

mod access;
mod clients;
mod completions;
mod confirmations;
mod control;
mod crowd;
mod desktop;
mod ends;
mod failures;
pub mod fake_control;
mod killed;
mod prompt;
pub mod scene;
