//! Tables of accounts, credentials, members and workspaces.

pub mod accounts;
pub mod actor_names;
pub mod agent_accounts;
pub mod api_keys;
pub mod clients;
pub mod invitations;
pub mod members;
pub mod oauth;
pub mod people;
pub mod sign_in;
pub mod ssh_keys;
pub mod takeover;
pub mod workspaces;
