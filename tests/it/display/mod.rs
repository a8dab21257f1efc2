//! Does the display room do on real X servers what it says? Each test has displays of its own.

mod desk;
mod window;

mod acting;
mod clipboard;
mod figures;
mod input;
mod life;
mod pictures;
mod sight;
mod through;
mod programs;
mod recordings;
mod typing;
mod windows;
