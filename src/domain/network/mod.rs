//! Rules about requests: addresses, hosts and repetitions.

pub mod address;
pub mod forwarded;
pub mod host;
pub mod replay_rule;
pub mod webhook;
