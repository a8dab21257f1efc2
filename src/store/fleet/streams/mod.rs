//! Tables of streams: saved RTMP servers, and the accounts that started streams.

pub mod stream_connections;
mod stream_owner;
