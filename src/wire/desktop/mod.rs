//! Input, shell commands, screenshots, windows, sound, events, recordings and streams of a screen.

pub mod action;
pub mod bash;
pub mod batch;
pub mod call;
pub mod channel;
pub mod clipboard;
pub mod effect;
pub mod element;
pub mod event;
pub mod recording;
pub mod screenshot;
pub mod stream;
pub mod vendor;
pub mod window;
