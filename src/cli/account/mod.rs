//! Account commands: API keys, SSH keys, secrets, profiles, workspaces, clients, capacity and the audit log.

pub mod api_keys;
pub mod audit;
pub mod capacity;
pub mod clients;
pub mod hosts;
pub mod login;
pub mod profile;
pub mod secrets;
pub mod ssh_keys;
pub mod workspaces;
