//! Resize requests, results and ceilings (docs/lifecycle.md#resize).

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ErrorBody;
use crate::field;

/// `POST` and `PATCH /computers/{id}/resize`. Omitted fields are unchanged; at least one is required beside
/// those that are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"vcpus": 2, "disk_size_gb": 20}))]
#[serde(deny_unknown_fields)]
pub struct ResizeComputer {
    /// Number of vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[serde(default)]
    #[schema(minimum = 0.5, maximum = 16)]
    pub vcpus: Option<f64>,
    /// RAM in GB: 4, 8, 16 or 32; also 64 if the service is configured for it.
    #[serde(default)]
    #[schema(minimum = 4, maximum = 64)]
    pub mem_gb: Option<f64>,
    /// Disk in GB, a whole number; a disk never shrinks.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000, multiple_of = 1)]
    pub disk_size_gb: Option<f64>,
    /// Bandwidth limit in Mbit/s, a whole number; 0 leaves it unchanged.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100_000, multiple_of = 1)]
    pub bandwidth_limit_mbps: Option<f64>,
    /// Idle timeout in minutes, 0 (always on) to 43200. It is applied last: a value out of range answers 500
    /// after the hardware has changed.
    #[serde(default)]
    pub auto_stop_minutes: Option<i64>,
    /// Ignored: the name of `vcpus` in a create (docs/api/compatibility.md#fields-without-effect).
    #[serde(default, skip_serializing)]
    #[schema(value_type = Option<f64>)]
    pub cpu: Option<IgnoredAny>,
    /// Ignored: the name of `mem_gb` in a create.
    #[serde(default, skip_serializing)]
    #[schema(value_type = Option<f64>)]
    pub ram: Option<IgnoredAny>,
}

/// Result of a resize, with the current size of the computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Resized)]
pub struct ResizeReport {
    /// Number of vCPUs.
    #[serde(serialize_with = "field::number")]
    pub vcpus: f64,
    /// RAM in GB.
    pub mem_gb: u32,
    /// Disk in GB.
    pub disk_size_gb: u32,
    /// Bandwidth limit in Mbit/s; 0 means no limit.
    pub bandwidth_limit_mbps: u32,
    /// Idle timeout in minutes as it was sent; absent when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_stop_minutes: Option<i64>,
    /// Whether the idle computer keeps its memory, as in `GET auto-stop`; absent when `auto_stop_minutes` was not
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_memory: Option<bool>,
    /// Whether a connection value changed: read the computer before connecting again.
    pub connection_changed: bool,
    /// Whether the computer was restarted.
    pub restarted: bool,
    /// Connection values that changed: `api_port`, `novnc_port`, `vnc_password`, `ssh_host_port`, `ip`.
    pub changed: Vec<String>,
    /// Results of the requested dimensions; absent when no hardware was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<ResizeResult>>,
    /// Whether at least one dimension failed; absent when no hardware was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// Message for people, when every dimension failed (422).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Result of one dimension.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ResizeResult {
    /// `vcpus`, `mem_mb`, `disk_gb` or `bandwidth_mbps`.
    pub dimension: String,
    /// Requested value, in the unit of the dimension.
    #[serde(serialize_with = "field::number")]
    pub requested: f64,
    /// Current value, in the unit of the dimension.
    #[serde(serialize_with = "field::number")]
    pub applied: f64,
    /// Whether the current value is the requested one.
    pub ok: bool,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Body of a 422 answer to a resize.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ResizeRefused)]
pub enum ResizeErrorBody {
    /// No dimension changed.
    Unchanged(ResizeReport),
    /// The `Idempotency-Key` belongs to another request.
    KeyReused(ErrorBody),
}

/// `GET /computers/{id}/resize`: the largest sizes for a resize.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ResizeCeilings {
    /// Whether it can be resized now. If not, every maximum is the current size.
    pub resizable: bool,
    /// Reason why it cannot be resized, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason why it cannot be resized, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Current disk size in GB.
    pub current_disk_gb: u32,
    /// Largest disk in GB.
    pub max_disk_gb: u32,
    /// Largest RAM in GB.
    pub max_ram_gb: u32,
    /// Largest number of vCPUs.
    #[serde(serialize_with = "field::number")]
    pub max_cpu: f64,
    /// Same as `max_disk_gb`, under the name of the resize field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size_gb: Option<u32>,
    /// Same as `max_ram_gb`, under the name of the resize field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_gb: Option<u32>,
    /// Same as `max_cpu`, under the name of the resize field.
    #[serde(serialize_with = "field::number_or_null", skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<f64>,
    /// Largest bandwidth limit in Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit_mbps: Option<u32>,
    /// Whether RAM can change without a restart; absent while the computer does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_gb_live: Option<bool>,
}
