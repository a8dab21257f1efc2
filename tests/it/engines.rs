//! Conformance tests of `hotdesk::engine::Engine` for every engine, and tests of single engines.

#[path = "engines/conformance.rs"]
mod conformance;
#[path = "engines/container.rs"]
mod container;
#[path = "engines/copies.rs"]
mod copies;
#[path = "engines/crash.rs"]
mod crash;
#[path = "engines/desktop.rs"]
mod desktop;
#[path = "engines/guest.rs"]
mod guest;
#[path = "engines/gvisor.rs"]
mod gvisor;
#[path = "engines/gvisor_desktop.rs"]
mod gvisor_desktop;
#[path = "engines/gvisor_fork.rs"]
mod gvisor_fork;
#[path = "engines/host.rs"]
pub mod host;
#[path = "engines/hostile.rs"]
mod hostile;
#[path = "engines/limits.rs"]
pub mod limits;
#[path = "engines/moments.rs"]
mod moments;
#[path = "engines/network.rs"]
mod network;
#[path = "engines/qemu.rs"]
pub mod qemu;
#[path = "engines/qemu_desktop.rs"]
pub mod qemu_desktop;
#[path = "engines/qemu_faults.rs"]
mod qemu_faults;
#[path = "engines/qemu_forks.rs"]
mod qemu_forks;
#[path = "engines/resize.rs"]
mod resize;
#[path = "engines/saved.rs"]
mod saved;
#[path = "engines/simulated.rs"]
mod simulated;
#[path = "engines/snapshots.rs"]
mod snapshots;
