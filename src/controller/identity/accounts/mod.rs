//! Plans of accounts, an operator's clients, accounts of AI agents, and billing events.

pub mod agents;
pub mod billing;
pub mod challenges;
pub mod clients;
pub mod signature;
