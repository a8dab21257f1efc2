//! What does a failure look like on the wire? (interface.md "Error body")

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every failure.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Human-readable message.
    pub error: String,
    /// Machine-readable reason, where one is defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Quote it when reporting a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The status that the computer itself answered, when the failure came from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
    /// Seconds after which a retry makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Endpoint-specific fields.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}
