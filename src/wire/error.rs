//! Error bodies (docs/api/errors.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of every error.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Message for people.
    pub error: String,
    /// Machine-readable code, if one is defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Id of the request, for problem reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// HTTP status that the computer answered, if the error came from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
    /// Seconds after which a retry may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Endpoint-specific fields.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}
