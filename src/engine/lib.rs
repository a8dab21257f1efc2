//! Compute engines: the [`Engine`] trait and its three implementations (floor 4).
//!
//! An engine makes *machines*; the controller calls a machine that belongs to somebody a *computer*. Every
//! operation is idempotent: a request for the present state succeeds. An engine labels everything that a
//! machine leaves on its host with the computer's id and generation before first use. So a restarted
//! controller finds it (T18, docs/security.md).
//!
//! | folder | contents |
//! |---|---|
//! | `container`, `qemu` | how a guest runs: OCI containers (runc, gVisor) and virtual machines |
//! | `driver` | the steps of every operation that both engines share (`GuestDriver`) |
//! | `leftovers` | search for what crashes left on the host, and its removal |
//! | `state` | records, disks, saved memory and locks in the state folder |
//! | `host` | the host's kernel: control groups, mounts, network, loop devices, slots |
//! | `simulated` | machines without guests, for tests (cargo feature `simulated`) |

mod error;
mod traits;
mod types;

pub mod container;
mod driver;
mod host;
mod leftovers;
pub mod qemu;
#[cfg(feature = "simulated")]
pub mod simulated;
mod state;

pub use hotdesk_domain::computer::endpoint::Endpoint;

pub use crate::error::{EngineError, EngineResult};
pub use crate::host::addresses::{Addresses, NetworkConfig, Subnet};
pub use crate::leftovers::{Leftover, Leftovers};
pub use crate::state::disk::DiskSpeed;
pub use crate::state::saved::{Extents, SavedFile, SavedLocation, SavedState};
pub use crate::traits::Engine;
pub use crate::types::{Boot, Capabilities, Change, Effect, Finding, MachineSpec, Observation, Snapshot};
