//! What are snapshots and a rollback on the wire?

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `POST /computers/{id}/snapshots`; the body may be left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "before the update"}))]
pub struct CreateSnapshot {
    /// What it is called, 1 to 255 characters after trimming; need not be unique.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Whether it holds what runs besides the disk; not every engine can.
    #[serde(default)]
    pub memory: bool,
}

/// A computer as it was at one moment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// UUID.
    pub id: String,
    /// The computer that it is of.
    pub computer_id: String,
    /// What it is called, if anything.
    pub name: Option<String>,
    /// `creating`, `ready` or `deleting`.
    pub state: String,
    /// Whether it holds what ran besides the disk.
    pub memory: bool,
    /// Bytes that it takes on its host; null while it is being made.
    pub size_bytes: Option<u64>,
    /// ISO 8601.
    pub created_at: String,
}

/// `GET /computers/{id}/snapshots`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SnapshotListQuery {
    /// At most so many, 1 to 1000; all when absent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// After so many.
    #[serde(default)]
    pub offset: Option<u32>,
}

/// `GET /computers/{id}/snapshots`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotList {
    /// The snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// How many there are in all.
    pub total: u64,
    /// Where the next page begins; null on the last.
    pub next_offset: Option<u64>,
}

/// `POST /computers/{id}/rollback`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"snapshot_id": "00000000-0000-4000-8000-000000000000"}))]
pub struct RollBack {
    /// The snapshot that the computer goes back to.
    pub snapshot_id: String,
}

/// A computer that went back to a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RolledBack {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// The status at the time of the answer.
    pub status: String,
    /// The snapshot.
    pub snapshot_id: String,
}
