//! Which bounds do both ends of a call have to know? Here once, so that whoever waits never gives up before whoever works.

/// Longest command that a request can ask for, in seconds (interface.md "Limits").
pub const MAX_COMMAND_SECONDS: f64 = 300.0;
/// Longest wait that a request can ask for, in seconds (wire.md 6).
pub const MAX_WAIT_SECONDS: f64 = 60.0;
/// Longest self-test, in seconds: its checks, and the end of what they used.
pub const MAX_SELFTEST_SECONDS: f64 = 75.0;
/// Slowest typing that is waited for, in characters a second: what needs remapped keys goes at 300 on an idle machine.
pub const SLOWEST_TYPING: f64 = 50.0;
/// Largest upload: 10 MB (interface.md "Limits"), read as 10 MiB so that nobody's idea of it is refused.
pub const MAX_UPLOAD: u64 = 10 * 1024 * 1024;
/// Most bytes for a process's standard input at once; past the agent's own limit, so that it is the agent that refuses.
pub const MAX_STDIN: usize = 17 * 1024 * 1024;
/// Longest hold of a sequence of keys in milliseconds; it keeps the screen's queue as long as the longest drag.
pub const MAX_HOLDS_MS: u64 = 30_000;
/// Milliseconds that a screen is watched when none are given.
pub const DEFAULT_WATCH_MS: u32 = 5_000;
/// How long a streaming server may take to be found, to be reached and to take the stream, in seconds. ffmpeg gives up
/// on a connection after 5.
pub const MAX_STREAM_START_SECONDS: u64 = 12;
