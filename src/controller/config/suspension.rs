//! Settings of suspended computers, auto-stop and object storage.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotdesk_objects::Objects;

/// Suspended computers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Suspension {
    /// Whether reads from a suspended computer (a screenshot, a listing) wake it, as actions do. If not, they
    /// get 409 `computer_asleep`.
    pub reads_wake: bool,
    /// Seconds that an action waits for a computer that it wakes, at most 45. Then it gets 503 `resuming`,
    /// and the computer continues to wake. 0: no wait.
    pub wake_wait_seconds: u32,
}

/// Object storage for the states of suspended computers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageSettings {
    /// A folder, or `s3://BUCKET/PREFIX`; empty: none.
    pub url: String,
    /// Origin of an S3 server other than Amazon's, such as `https://s3.example.org`.
    pub endpoint: String,
    /// Region of the store, for S3 and for API records; empty: none.
    pub region: String,
    /// File (mode 0600, TOML) with `access_key_id`, `secret_access_key` and optionally `session_token`;
    /// empty: the environment (`AWS_ACCESS_KEY_ID` and so on).
    pub credentials_file: PathBuf,
    /// When a suspend is complete.
    pub when: SuspendCompletion,
    /// MiB of saved states that stay on the host besides their copies; the oldest are evicted first. Not set:
    /// all.
    pub local_quota_mb: Option<u64>,
    /// Whether copies are sealed with a key of their workspace.
    pub encrypt: bool,
    /// Mbps that copies may use together; 0 is unlimited.
    pub bandwidth_mbps: u32,
    /// Another store; only tests set it.
    #[serde(skip)]
    pub objects: Option<Objects>,
}

/// When a suspend is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendCompletion {
    /// When the state is on the host; the copy follows.
    #[default]
    Background,
    /// When the copy is complete.
    BeforeRelease,
}

/// Timing of auto-stop and ends of trials.
#[derive(Clone, Copy, Debug)]
pub struct AutoStopTiming {
    /// Time between two rounds: a computer is stopped at most this late.
    pub every: Duration,
    /// Length of a minute of `auto_stop_minutes`.
    pub minute: Duration,
}

impl Default for AutoStopTiming {
    fn default() -> Self {
        Self { every: Duration::from_secs(15), minute: Duration::from_secs(60) }
    }
}

impl Default for StorageSettings {
    /// 400 Mbps: a state of 300 MB takes seconds, and most of a network and a disk stays free.
    fn default() -> Self {
        Self {
            url: String::new(),
            endpoint: String::new(),
            region: String::new(),
            credentials_file: PathBuf::new(),
            when: SuspendCompletion::Background,
            local_quota_mb: None,
            encrypt: false,
            bandwidth_mbps: 400,
            objects: None,
        }
    }
}

impl Default for Suspension {
    /// Clients that do not know suspension act without polling (docs/api/compatibility.md). Computers appear
    /// always on to them, as far as a request can wait: clients allow 60 s (docs/api/computers.md).
    fn default() -> Self {
        Self { reads_wake: true, wake_wait_seconds: 45 }
    }
}
