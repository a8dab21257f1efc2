//! Account commands: keys, profiles, workspaces, clients, capacity and the audit log.

pub mod api_keys;
pub mod audit;
pub mod capacity;
pub mod clients;
pub mod login;
pub mod profile;
pub mod workspaces;
