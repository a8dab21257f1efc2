//! How does HTTP reach the agent's rooms? One file per family of operations.

pub mod desktop;
