//! The agent's HTTP API and process 1.
//!
//! Authentication, health, commands, Python, sessions, processes, files, activity and identity.

mod activity;
mod bash;
mod exec_context;
mod files;
mod gate;
mod heaps;
mod idempotency;
mod identity;
mod init;
mod processes;
mod python;
mod sessions;
mod stock;
