//! Rules about the network: addresses, hosts, ports, webhooks, and repetitions of requests.

pub mod address;
pub mod forwarded;
pub mod host;
pub mod port;
pub mod replay_rule;
pub mod webhook;
