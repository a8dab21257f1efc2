//! Routes of the system inside a computer: health, activity, identity, processes, provisioning and SSH.

pub mod activity;
pub mod health;
pub mod identity;
pub mod processes;
pub mod provision;
pub mod ssh;
