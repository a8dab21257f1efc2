//! In-guest agent of hotdesk: one process in a computer that owns its screens, runs its commands and moves its files.
//!
//! Every request shows the agent's token; see `docs/security.md`.

pub mod actions;
pub mod display;
pub mod elements;
pub mod events;
pub mod exec;
pub mod files;
pub mod media;
pub mod programs;
pub mod routes;
pub mod selftest;
pub mod server;
pub mod system;

pub use server::run;
pub use system::unblock_signals;
