//! RTMP streams of screens through saved connections, and the secrecy of their keys (docs/api/streaming.md).

mod computers;
mod connections;
