//! What do the controller and an agent say to each other beyond the public actions?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /health` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` once the boot screen has a window manager, else `starting`.
    pub status: String,
    /// The agent's version.
    pub version: String,
    /// Milliseconds since the agent started.
    pub uptime_ms: u64,
    /// Screens that exist.
    pub screens: u32,
    /// Logical processors that the computer sees.
    pub cpu_count: u32,
    /// Memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory in use, in bytes.
    pub memory_used_bytes: u64,
}

/// What became of a file put on the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PutOutcome {
    /// It is there now.
    Created,
    /// A file of that name was there already and was left alone (interface.md "Files" rule 4).
    Exists,
}

/// `PUT /files/desktop/{filename}` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PutResult {
    /// Where the file is, for example `/root/Desktop/report.pdf`.
    pub path: String,
    /// What became of it.
    pub outcome: PutOutcome,
}

/// `POST /identity` of an agent: what must not be what it was when the machine's memory or disk was saved (threats.md
/// T21, T28). Sent with the token of the boot that was saved, before anybody else can reach the computer; the agent takes
/// `agent_token` for the only one before it answers, and ends every socket and request but this one. The same again, with
/// the new token, does no harm: so it can be sent again when its answer was lost.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The token from now on.
    pub agent_token: String,
    /// The host's time in milliseconds since 1970 when this was sent; the guest's clock is set to it.
    pub unix_ms: i64,
    /// 32 random bytes as hex, mixed into the guest's random pool.
    pub seed: String,
    /// The computer's host name; letters, digits and hyphens.
    pub hostname: String,
    /// Whether this is another computer than the one that was saved (clone, fork): then machine-id and host keys are new
    /// too.
    pub another: bool,
}

/// What became of each part of a [`Renewal`].
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// What was renewed: `token`, `clock`, `random`, `hostname`, `machine_id`, `host_keys`.
    pub renewed: Vec<String>,
    /// What could not be, with the reason; the engine may have done it from outside (an own clock, say).
    pub failed: Vec<String>,
    /// By how many milliseconds the guest's clock was off.
    pub clock_was_off_ms: i64,
}

/// `GET /activity` of an agent: is anybody or anything at work? The controller's auto-stop reads it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    /// Milliseconds since the last input on any screen or terminal, by anybody; since the agent's start where there was none.
    pub idle_ms: u64,
    /// What is at work now and keeps the computer up, at most 16.
    pub held_by: Vec<Hold>,
}

/// One reason why a computer is not idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// `terminal`, `audio`, `stream`, `viewer`, `command`, `process`, `recording`, `transfer`; of a computer that does not tell,
    /// `unknown`.
    pub kind: String,
    /// In words, for example `bash runs make`.
    pub detail: String,
}
