//! Hosts of computers, for the operator (docs/hosts.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /operator/hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostList {
    /// The hosts, in the order of their names.
    pub hosts: Vec<Host>,
}

/// A host: a machine that runs computers. It is a member of the cluster, or the only host of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// `online`, `offline`, `draining`, `drained` or `gone`. One that is offline does not answer, and its computers may still run.
    /// One that is drained has no computers, and takes none. One that is gone runs nothing: the operator confirmed it.
    pub status: String,
    /// Name of the engine.
    pub engine: String,
    /// Number of processors; 0 while unknown.
    pub cpus: u32,
    /// Memory in MB; 0 while unknown.
    pub memory_mb: u64,
    /// Memory in MB that programs can get.
    pub memory_free_mb: u64,
    /// Storage for computers in MB; 0 while unknown.
    pub disk_mb: u64,
    /// Free part of that storage, in MB.
    pub disk_free_mb: u64,
    /// Number of its computers.
    pub computers: u32,
    /// Number of those with the status `running`.
    pub running: u32,
    /// Whether the guest image is ready there. The first computer of a host without it takes longer.
    pub image_present: bool,
    /// Why it does not answer, or why a drain could not move a computer; empty without such a reason.
    pub message: String,
}

/// `POST /operator/computers/{id}/move`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"host": "m2"}))]
#[serde(deny_unknown_fields)]
pub struct MoveToHost {
    /// Name of the host; default: the one with the most room.
    #[serde(default)]
    pub host: Option<String>,
}

/// A computer after a move, or during one that takes longer than the request waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedToHost {
    /// Id of the computer.
    pub id: String,
    /// Its host.
    pub host: Option<String>,
    /// Its status.
    pub status: String,
    /// Whether the move is still in progress.
    pub moving: bool,
}
