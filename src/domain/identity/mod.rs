//! Rules about accounts, credentials and the people and programs behind them.

pub mod access;
pub mod api_key;
pub mod client;
pub mod device;
pub mod email;
pub mod oauth;
pub mod proof_of_work;
pub mod provider_sign_in;
pub mod recovery_code;
pub mod ssh_key;
pub mod totp;
pub mod user_agent;
pub mod verification;
pub mod webauthn;
