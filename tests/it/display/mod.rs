//! Display subsystem on real X servers. Each test has its own displays.

mod counter;
pub mod desk;
mod receivers;
mod served;
mod streams;
pub mod window;

mod acting;
pub mod clipboard;
mod counting;
mod crowd;
mod fidelity;
mod figures;
mod input;
mod life;
mod pictures;
mod programs;
mod recordings;
mod selftest;
mod sight;
mod through;
mod typing;
pub mod windows;
