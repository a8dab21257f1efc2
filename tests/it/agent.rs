//! The agent as its client sees it: who may call, health, waits, bash, Python, files, and what process 1 does.

mod bash;
mod files;
mod gate;
mod idempotency;
mod init;
mod python;
