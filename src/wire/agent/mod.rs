//! Requests and answers between the controller and an agent, beyond the public actions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub mod selftest;
pub mod timeline;

/// The query of `GET /health` of an agent.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct HealthQuery {
    /// Milliseconds for which the answer may wait until the desktop is usable; the agent limits them. An
    /// earlier agent answers at once.
    #[serde(default)]
    pub usable_within_ms: u32,
}

/// `GET /health` of an agent, and `GET /computers/{id}/readiness`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Readiness)]
pub struct Health {
    /// `ok` once the boot screen has a window manager, else `starting`.
    pub status: String,
    /// The agent's version.
    pub version: String,
    /// Milliseconds since the agent started.
    pub uptime_ms: u64,
    /// Number of screens.
    pub screens: u32,
    /// Number of logical processors of the computer.
    pub cpu_count: u32,
    /// Total memory, in bytes.
    pub memory_total_bytes: u64,
    /// Used memory, in bytes.
    pub memory_used_bytes: u64,
    /// Processor time of all programs since the boot, in milliseconds: its growth is the use. 0 from an
    /// earlier agent.
    #[serde(default)]
    pub cpu_used_ms: u64,
    /// Size of the disk, in bytes. 0 from an earlier agent.
    #[serde(default)]
    pub disk_total_bytes: u64,
    /// Used bytes of the disk. 0 from an earlier agent.
    #[serde(default)]
    pub disk_used_bytes: u64,
}

/// The query of `GET /files/content` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContentQuery {
    /// Path: relative to the home folder, `~/...`, or absolute.
    #[serde(default)]
    pub path: String,
    /// Refuse a file outside of the home folder, after all links were followed.
    #[serde(default)]
    pub within_home: bool,
}

/// Outcome of putting a file on the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PutOutcome {
    /// The file was created.
    Created,
    /// A file with that name existed and was not changed (docs/api/files.md).
    Exists,
}

/// `PUT /files/desktop/{filename}` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PutResult {
    /// Path of the file, for example `/root/Desktop/report.pdf`.
    pub path: String,
    /// Outcome of the write.
    pub outcome: PutOutcome,
}

/// The query of `GET /template/requests` of an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuestRequestQuery {
    /// `instance` of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Number of the last request that the service has taken from that instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// Open requests of a computer's template to the service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuestRequests {
    /// Id of the agent: numbers begin again with another one.
    pub instance: String,
    /// True when the template cannot ask for anything, so that nobody needs to wait.
    #[serde(default)]
    pub none_expected: bool,
    /// The requests, in the order of their numbers.
    pub requests: Vec<GuestRequest>,
}

/// A numbered request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestRequest {
    /// Its number.
    pub number: u64,
    /// Kind of the request.
    #[serde(flatten)]
    pub kind: GuestRequestKind,
}

/// Kind of a request of a template to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GuestRequestKind {
    /// A restart of the computer.
    Restart {
        /// Name of the application that does not work.
        app: String,
        /// Why its last check failed.
        reason: String,
    },
    /// A webhook of the template. The service knows its URL; the agent waits for the outcome.
    Webhook {
        /// Name of the trigger.
        trigger: String,
        /// Place of the action in the trigger.
        action: usize,
        /// The event.
        event: serde_json::Value,
    },
}

/// Outcome of a webhook: `POST /template/requests/{number}` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestRequestOutcome {
    /// `instance` of the agent that asked.
    pub instance: String,
    /// Error; absent when the receiver has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Answer of `PUT /secrets` of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PutSecretsResult {
    /// Path of the file that sets them, for example `/root/.env`.
    pub path: String,
}

/// `POST /identity` of an agent: new identity of a machine that continues from a saved memory or disk (T21,
/// T28, docs/security.md).
///
/// It is sent with the token from the saved state, before any other client can reach the computer. Before it
/// answers, the agent accepts only `agent_token`, and closes every other socket and request. The request can
/// be repeated with the new token if its answer was lost.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The new token.
    pub agent_token: String,
    /// The host's time when the request was sent, in Unix milliseconds; the guest's clock is set to it.
    pub unix_ms: i64,
    /// 32 random bytes in hexadecimal, mixed into the guest's random pool.
    pub seed: String,
    /// The computer's host name; letters, digits and hyphens.
    pub hostname: String,
    /// Whether this is another computer than the saved one (clone, fork). Then it also gets a new machine id
    /// and new host keys.
    pub another: bool,
}

/// Outcome of each part of a [`Renewal`].
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Renewed)]
pub struct RenewalResult {
    /// Renewed parts: `token`, `clock`, `random`, `hostname`, `machine_id`, `host_keys`.
    pub renewed: Vec<String>,
    /// Parts that failed, with the reason. The engine may have renewed them from outside, the clock for
    /// example.
    pub failed: Vec<String>,
    /// Error of the guest's clock, in milliseconds.
    pub clock_was_off_ms: i64,
}

/// `GET /activity` of an agent: user input and work in progress, for auto-stop.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    /// Milliseconds since the last input on any screen or terminal, or since the agent's start.
    pub idle_ms: u64,
    /// Work in progress that prevents auto-stop; at most 16 entries.
    pub held_by: Vec<BusyReason>,
}

/// A reason why a computer is not idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Hold)]
pub struct BusyReason {
    /// `terminal`, `audio`, `stream`, `viewer`, `command`, `process`, `recording`, `transfer` or `ssh`; `unknown`
    /// when the agent does not answer.
    pub kind: String,
    /// Description, for example `bash runs make`.
    pub detail: String,
}
