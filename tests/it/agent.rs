//! The agent as its client sees it: who may call, health, waits, bash, Python, sessions, background processes, files,
//! what is at work, a new identity, and what process 1 does.

mod activity;
mod bash;
mod files;
mod gate;
mod idempotency;
mod identity;
mod init;
mod processes;
mod python;
mod sessions;
mod surroundings;
