//! Display subsystem on real X servers. Each test has its own displays.

mod counter;
pub mod fixture;
mod receivers;
mod served;
mod streams;
pub mod window;

mod actions;
pub mod clipboard;
mod conditional_screenshots;
mod counting;
mod crowd;
mod fidelity;
mod figures;
mod input;
mod pictures;
mod programs;
mod recordings;
mod screens;
mod selftest;
mod session_order;
mod through;
mod timeline;
mod typing;
mod video;
pub mod windows;
