//! Does the display room do on real X servers what it says? Each test has displays of its own.

mod counter;
mod desk;
mod receivers;
mod served;
mod streams;
mod window;

mod acting;
mod clipboard;
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
mod windows;
