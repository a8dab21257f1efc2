//! Hosts of computers: placement, moves and drains (docs/hosts.md).

pub mod drain;
pub mod migration;
pub mod placement;
