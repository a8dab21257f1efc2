//! What is a change of hardware on the wire? (interface.md "Resize" and "Resize ceilings", wire.md 5.3)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ErrorBody;

/// `POST` and `PATCH /computers/{id}/resize`. Omitted fields stay; unknown ones are ignored, but one known is needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"vcpus": 2, "disk_size_gb": 20}))]
pub struct ResizeComputer {
    /// vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[serde(default)]
    pub vcpus: Option<f64>,
    /// RAM in GB: 4, 8, 16, 32; 64 where the service is set up for it.
    #[serde(default)]
    pub mem_gb: Option<f64>,
    /// Disk in GB, whole; it never shrinks.
    #[serde(default)]
    pub disk_size_gb: Option<f64>,
    /// Bandwidth cap in Mbps, whole; 0 leaves it.
    #[serde(default)]
    pub bandwidth_limit_mbps: Option<f64>,
    /// Idle minutes before it suspends itself, 0 (always-on) to 43200. Looked at last: a value out of range answers 500
    /// after the hardware has changed.
    #[serde(default)]
    pub auto_stop_minutes: Option<i64>,
}

/// What became of a resize, with the size that the computer has now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resized {
    /// vCPUs.
    pub vcpus: f64,
    /// RAM in GB.
    pub mem_gb: u32,
    /// Disk in GB.
    pub disk_size_gb: u32,
    /// Bandwidth cap in Mbps; 0 is without one.
    pub bandwidth_limit_mbps: u32,
    /// As it was sent; absent when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_stop_minutes: Option<i64>,
    /// Whether a connection value changed: read the computer before connecting again.
    pub connection_changed: bool,
    /// Whether the computer was restarted for it.
    pub restarted: bool,
    /// The connection values that changed, of `api_port`, `novnc_port`, `vnc_password`, `ssh_host_port`, `ip`.
    pub changed: Vec<String>,
    /// Every dimension that was to change; absent when no hardware was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<ResizeResult>>,
    /// Whether at least one dimension failed; absent when no hardware was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// What to tell a person, when every dimension failed (422).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of one dimension.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ResizeResult {
    /// `vcpus`, `mem_mb`, `disk_gb` or `bandwidth_mbps`.
    pub dimension: String,
    /// The wanted value, in the unit of the dimension.
    pub requested: f64,
    /// The value now.
    pub applied: f64,
    /// Whether it is the wanted one.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What 422 says of a resize, as the description of the API has it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ResizeRefused {
    /// No dimension changed.
    Unchanged(Resized),
    /// The request's `Idempotency-Key` was another request's.
    KeyReused(ErrorBody),
}

/// `GET /computers/{id}/resize`: how far the computer can be resized.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ResizeCeilings {
    /// Whether it can be resized (while it runs). If not, every maximum is the current size.
    pub resizable: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why not, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The disk's size in GB.
    pub current_disk_gb: u32,
    /// Largest disk in GB.
    pub max_disk_gb: u32,
    /// Most RAM in GB.
    pub max_ram_gb: u32,
    /// Most vCPUs.
    pub max_cpu: f64,
    /// As `max_disk_gb`, under the name that a resize takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size_gb: Option<u32>,
    /// As `max_ram_gb`, under the name that a resize takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_gb: Option<u32>,
    /// As `max_cpu`, under the name that a resize takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<f64>,
    /// Highest bandwidth cap in Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit_mbps: Option<u32>,
    /// Whether RAM changes without a restart; absent while it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_gb_live: Option<bool>,
}
