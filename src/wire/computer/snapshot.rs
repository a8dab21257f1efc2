//! Snapshots and rollbacks (docs/lifecycle.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `POST /computers/{id}/snapshots`; the body is optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "before the update"}))]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Name, 1 to 255 characters after trimming; it need not be unique.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Whether the snapshot includes the memory; not every engine supports it.
    #[serde(default)]
    pub memory: bool,
}

/// State of a computer at one moment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Id of the snapshot, a UUID.
    pub id: String,
    /// Id of the computer that it was taken of.
    pub computer_id: String,
    /// Name, if it has one.
    pub name: Option<String>,
    /// `creating`, `ready` or `deleting`.
    pub state: String,
    /// Whether the snapshot includes the memory.
    pub memory: bool,
    /// Size on the host, in bytes; null while the snapshot is being created.
    pub size_bytes: Option<u64>,
    /// Whether `GET /computers/{id}/snapshots/{snapshot_id}/picture` has a picture of the screen.
    #[serde(default)]
    pub has_picture: bool,
    /// Time of creation, ISO 8601.
    pub created_at: String,
}

/// `GET /computers/{id}/snapshots`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SnapshotListQuery {
    /// Largest number of entries, 1 to 1000; all when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Number of entries to skip; 0 when absent.
    #[serde(default)]
    #[param(format = Int64, maximum = 4_294_967_295_u32)]
    pub offset: Option<u32>,
}

/// `GET /computers/{id}/snapshots`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotList {
    /// Snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Total number of entries, without `limit` and `offset`.
    pub total: u64,
    /// Offset of the next page; null on the last.
    pub next_offset: Option<u64>,
}

/// `POST /computers/{id}/rollback`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"snapshot_id": "00000000-0000-4000-8000-000000000000"}))]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// Snapshot to restore.
    pub snapshot_id: String,
}

/// The answer to a rollback.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RolledBack)]
pub struct RollbackResult {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// Status at the time of the answer.
    pub status: String,
    /// The restored snapshot.
    pub snapshot_id: String,
}
