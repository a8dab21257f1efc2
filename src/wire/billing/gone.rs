//! Confirmation of the operator that a host is gone (docs/engines/incus.md#when-a-host-dies).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /operator/hosts/{name}/gone`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"confirm": "m2"}))]
#[serde(deny_unknown_fields)]
pub struct ConfirmGone {
    /// Name of the host. It confirms that nothing runs there any more.
    pub confirm: String,
}

/// The answer to `POST /operator/hosts/{name}/gone`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GoneHost)]
pub struct GoneHostRecord {
    /// Name of the host.
    pub name: String,
    /// Always `gone`.
    pub status: String,
    /// Time of the first confirmation, ISO 8601.
    pub confirmed_at: String,
    /// Number of its computers, which are stopped now.
    pub computers: u32,
    /// Number of these with a replica: their next start continues from it. The others wait for the host.
    pub with_replica: u32,
}
