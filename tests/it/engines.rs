//! Do all engines keep the contract of `hotdesk::engine::Engine`? One suite, run over every engine.

#[path = "engines/conformance.rs"]
mod conformance;
#[path = "engines/container.rs"]
mod container;
#[path = "engines/crash.rs"]
mod crash;
#[path = "engines/guest.rs"]
mod guest;
#[path = "engines/host.rs"]
mod host;
#[path = "engines/hostile.rs"]
mod hostile;
#[path = "engines/limits.rs"]
mod limits;
#[path = "engines/network.rs"]
mod network;
#[path = "engines/simulated.rs"]
mod simulated;
