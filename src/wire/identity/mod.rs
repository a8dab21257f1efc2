//! Accounts, credentials, members and workspaces.

pub mod agent_account;
pub mod api_key;
pub mod client;
pub mod device;
pub mod member;
pub mod oauth;
pub mod profile;
pub mod secret;
pub mod session;
pub mod sign_in_link;
pub mod ssh_key;
pub mod webhook;
pub mod workspace;
