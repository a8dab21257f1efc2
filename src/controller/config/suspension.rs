//! How do computers sleep, when do they fall asleep, and where are their states copied to?

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotdesk_objects::Objects;

/// How computers sleep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Suspension {
    /// Whether reading from a suspended computer (a screenshot, a listing) wakes it, as acting on it does; if not, it
    /// answers 409 `computer_asleep`.
    pub reads_wake: bool,
    /// Seconds that an action waits for a computer that it wakes, at most 45; then it answers 503 `resuming`, and the computer
    /// wakes all the same. 0: at once.
    pub wake_wait_seconds: u32,
}

/// Where the states of suspended computers are copied to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageSettings {
    /// A folder, or `s3://BUCKET/PREFIX`; empty: nowhere.
    pub url: String,
    /// Origin of an S3 server other than Amazon's, for example `https://s3.example.org`.
    pub endpoint: String,
    /// The store's region, as S3 and clients are told; empty: none.
    pub region: String,
    /// File (mode 0600, TOML) with `access_key_id` and `secret_access_key`, and perhaps `session_token`; empty: the
    /// environment's `AWS_ACCESS_KEY_ID` and so on.
    pub credentials_file: PathBuf,
    /// When a suspend is done.
    pub when: When,
    /// MiB of saved states that stay on the host beside their copies; what was suspended first goes first. Not set: all.
    pub local_quota_mb: Option<u64>,
    /// Mbps that copies may take together; 0 is without a bound.
    pub bandwidth_mbps: u32,
    /// A store of one's own; not to be set, but by tests.
    #[serde(skip)]
    pub objects: Option<Objects>,
}

/// When a suspend is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Once the state is on the host; the copy follows.
    #[default]
    Background,
    /// Once the copy is whole.
    BeforeRelease,
}

/// How time passes for auto-stop and the ends of trials.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two rounds of asking what is idle, and whose trial is over: a computer rests at most so much late.
    pub every: Duration,
    /// A minute of `auto_stop_minutes`.
    pub minute: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { every: Duration::from_secs(15), minute: Duration::from_secs(60) }
    }
}

impl Default for StorageSettings {
    /// 400 Mbps: a state of 300 MB is away in seconds, and most of a line and a disk is left to others.
    fn default() -> Self {
        Self {
            url: String::new(),
            endpoint: String::new(),
            region: String::new(),
            credentials_file: PathBuf::new(),
            when: When::Background,
            local_quota_mb: None,
            bandwidth_mbps: 400,
            objects: None,
        }
    }
}

impl Default for Suspension {
    /// Clients that know nothing of sleep act without polling (wire.md 16 A): for them a computer is there, as far as a
    /// request that they give 60 s (wire.md 4.2) can wait.
    fn default() -> Self {
        Self { reads_wake: true, wake_wait_seconds: 45 }
    }
}
