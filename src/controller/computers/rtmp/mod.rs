//! RTMP: saved connections, and ends of streams.

pub mod stream_connections;
pub mod streams;
