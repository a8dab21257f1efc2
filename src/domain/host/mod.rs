//! Hosts of computers: placement, moves, drains, outages, replicas, and hosts that are gone (docs/hosts.md, docs/engines/incus.md).

pub mod drain;
pub mod gone;
pub mod migration;
pub mod outage;
pub mod placement;
pub mod replica;
