//! Rules about screens, input, sound, live channels, streams and timelines.

pub mod area;
pub mod audio;
pub mod channel;
pub mod event;
pub mod image;
pub mod key_name;
pub mod pointer;
pub mod region;
pub mod resolution;
pub mod rfb;
pub mod screen;
pub mod stream;
pub mod terminal;
pub mod thread;
