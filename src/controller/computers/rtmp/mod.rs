//! RTMP: saved connections, and ends of streams.

pub mod connections;
pub mod streams;
