//! The agent as its client sees it: who may call, health, waits, bash, Python, sessions, background processes, files,
//! and what process 1 does.

mod bash;
mod files;
mod gate;
mod idempotency;
mod init;
mod processes;
mod python;
mod sessions;
mod surroundings;
