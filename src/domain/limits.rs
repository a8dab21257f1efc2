//! Limits that caller and callee share, so that the caller's timeout is never shorter than the work.

use std::time::Duration;

/// Longest timeout of a command, in seconds (docs/api/limits.md).
pub const MAX_COMMAND_SECONDS: f64 = 300.0;
/// Longest wait of an action, in seconds (docs/api/actions.md).
pub const MAX_WAIT_SECONDS: f64 = 60.0;
/// Longest self-test, in seconds: its checks and their cleanup.
pub const MAX_SELFTEST_SECONDS: f64 = 75.0;
/// Slowest typing for timeouts, in characters per second. Characters that need remapped keys reach 300 on an
/// idle machine.
pub const SLOWEST_TYPING: f64 = 50.0;
/// Largest upload, in bytes: 10 MB (docs/api/limits.md), read as 10 MiB so that both meanings are accepted.
pub const MAX_UPLOAD: u64 = 10 * 1024 * 1024;
/// Largest request body for a process's standard input, in bytes. It is above the agent's own limit, so that
/// the agent answers the error.
pub const MAX_STDIN: usize = 17 * 1024 * 1024;
/// Longest hold of a key sequence, in milliseconds: it occupies the screen's queue for as long as the longest
/// drag.
pub const MAX_HOLDS_MS: u64 = 30_000;
/// Longest hold of one key in milliseconds: games need seconds.
pub const MAX_HOLD_MS: u32 = 10_000;
/// Most actions of one list: a form of fifty fields, each clicked, cleared, filled and checked.
pub const MAX_LIST_ACTIONS: usize = 200;
/// Most actions that count as one action of a list: a triple click where the pointer is, with five keys held.
pub const MAX_GROUP_ACTIONS: usize = 16;
/// Longest duration of one list, without the wait at its end: longer lists are better split.
pub const MAX_LIST_DURATION: Duration = Duration::from_secs(15 * 60);
/// Longest wait of a model in seconds, the limit in the documentation of Anthropic's computer tool.
pub const MAX_MODEL_WAIT_SECONDS: f64 = 300.0;
/// Default time for watching a screen, in milliseconds.
pub const DEFAULT_WATCH_MS: u32 = 5_000;
/// Timeout for a streaming server, in seconds: name resolution, connection and start of the stream. ffmpeg
/// closes a connection attempt after 5.
pub const MAX_STREAM_START_SECONDS: u64 = 12;

/// Returns a client's seconds as a duration of at most `most` seconds. Negative numbers become zero, NaN
/// becomes `most`; the agent refuses both.
pub fn bounded_seconds(value: f64, most: f64) -> Duration {
    Duration::try_from_secs_f64(value.min(most)).unwrap_or_default()
}
