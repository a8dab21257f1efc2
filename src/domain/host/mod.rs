//! Hosts of computers: outages, replicas on a second host, and hosts that are gone (docs/engines/incus.md).

pub mod gone;
pub mod outage;
pub mod replica;
