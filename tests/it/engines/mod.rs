//! Conformance tests of `hotdesk::engine::Engine` for every engine, and tests of single engines.

mod conformance;
mod container;
mod copies;
mod crash;
mod desktop;
mod guest;
mod guest_size;
mod gvisor;
mod gvisor_desktop;
pub mod host;
mod hostile;
mod isolations;
mod layers;
pub mod limits;
mod moments;
mod network;
pub mod qemu;
pub mod qemu_desktop;
mod qemu_faults;
mod qemu_forks;
mod remote;
mod remote_container;
mod resize;
mod saved;
mod simulated;
mod snapshots;
mod stopped;
