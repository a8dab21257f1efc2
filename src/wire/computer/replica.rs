//! Replicas of computers on a second host (docs/engines/incus.md#replicas).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a computer has a replica on a second host, and how old its state may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"interval_minutes": 15}))]
#[serde(deny_unknown_fields)]
pub struct Replication {
    /// Minutes between two refreshes, 1 to 10080; 0 removes the replica.
    #[schema(minimum = 0, maximum = 10080)]
    pub interval_minutes: i64,
}

/// A copy of a computer's disk and snapshots on a second host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Name of the host.
    pub host: String,
    /// Time of its state, ISO 8601. Later changes of the disk are not in it.
    pub refreshed_at: String,
}

/// The state with which a computer began from its replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReplicaRecovery)]
pub struct RecoveryRecord {
    /// Name of the host that was gone.
    pub from: String,
    /// Time of the state, ISO 8601. What was written between it and the end of the host is on the host only.
    pub state_at: String,
}
