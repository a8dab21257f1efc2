//! RTMP streams of screens through saved connections, and the secrecy of their keys (docs/api/streaming.md).

#[path = "streaming/computers.rs"]
mod computers;
#[path = "streaming/connections.rs"]
mod connections;
