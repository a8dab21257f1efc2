//! Floor 1: the rules, as pure functions and types. No I/O, async, clock, serde, HTTP or SQL.

pub mod access;
pub mod address;
pub mod api_key;
pub mod area;
pub mod audio;
pub mod channel;
pub mod computer;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod filename;
pub mod image;
pub mod lifecycle;
pub mod limits;
pub mod name;
pub mod pointer;
pub mod region;
pub mod resolution;
pub mod rfb;
pub mod stream;
pub mod template;
pub mod terminal;
