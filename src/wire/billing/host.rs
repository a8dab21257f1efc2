//! Report of the host for the operator (docs/api/accounts.md#host).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /operator/host`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HostReportQuery {
    /// True to run every check, also those that take seconds to minutes; else only the quick ones.
    #[serde(default)]
    pub thorough: Option<bool>,
}

/// `GET /operator/host`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostReport {
    /// Version of hotdesk.
    pub version: String,
    /// Seconds since the start of the service.
    pub uptime_seconds: u64,
    /// Time of the report, ISO 8601. One report serves all requests of some seconds.
    pub measured_at: String,
    /// Processors, memory and disk of the host.
    pub resources: HostResources,
    /// Isolations that computers may have, the default first.
    pub engines: Vec<HostEngine>,
    /// Use of the host by computers.
    pub capacity: HostCapacity,
    /// Results of the checks, in the order in which they ran.
    pub checks: Vec<HostCheck>,
    /// Names of the checks that did not run, because the request asked only for the quick ones.
    pub checks_left_out: Vec<String>,
    /// Resources of the host that no computer owns, at most 100. Trash and unfinished files are not among
    /// them: an operation may just be making them.
    pub leftovers: Vec<HostLeftover>,
    /// Number of the leftovers that were found, at most 1000.
    pub leftovers_total: u32,
    /// Why leftovers could not be looked for; null when they could.
    pub leftovers_error: Option<String>,
}

/// Processors, memory and disk of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostResources {
    /// Number of processors that the service may use.
    pub cores: u32,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Memory that programs can get without swapping.
    pub memory_available_bytes: u64,
    /// Size of the file system with the data folder.
    pub disk_bytes: u64,
    /// Free space of that file system.
    pub disk_free_bytes: u64,
}

/// An isolation that computers may have, and the engine that provides it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostEngine {
    /// `sandbox`, `shared` or `vm`.
    pub isolation: String,
    /// Name of the engine.
    pub engine: String,
    /// Operations of its computers beyond those that all have.
    pub abilities: EngineAbilities,
}

/// Operations beyond those that computers of every engine have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngineAbilities {
    /// Suspend and resume with memory.
    pub suspend: bool,
    /// Change the number of vCPUs while the computer runs.
    pub live_cpu: bool,
    /// Change the RAM while the computer runs.
    pub live_ram: bool,
    /// Grow the disk while the computer runs.
    pub live_disk: bool,
    /// Clone a running computer.
    pub copy_while_running: bool,
    /// Forks, and snapshots with memory.
    pub memory_snapshot: bool,
    /// Move saved memory to object storage.
    pub evict: bool,
    /// Encrypt the files of computers.
    pub encrypt: bool,
    /// Keep a copy of a computer on a second host.
    pub replicate: bool,
}

/// Use of the host by computers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostCapacity {
    /// Number of computers.
    pub computers: u32,
    /// Number of computers with the status `running`.
    pub running: u32,
    /// Number of computers that are frozen because the disk is nearly full.
    pub frozen: u32,
    /// vCPUs of the computers that run, start or end.
    pub cpu_promised: f64,
    /// RAM of the computers that run, start or end. They take it as they use it.
    pub memory_promised_bytes: u64,
    /// Disks of all computers. They take space as it is written.
    pub disk_promised_bytes: u64,
    /// Number of machines of the pool that are ready.
    pub pool_ready: u32,
    /// Number of machines of the pool, ready or not.
    pub pool: u32,
    /// Number of boot snapshots.
    pub boot_snapshots: u32,
}

/// Result of one check of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostCheck {
    /// The thing that was checked.
    pub name: String,
    /// Isolations that need it; empty when the check failed as a whole.
    pub isolations: Vec<String>,
    /// `ok`, `warning` (computers run, with a restriction) or `failed`.
    pub state: String,
    /// What was found.
    pub message: String,
    /// What to do; null when the state is `ok`.
    pub remedy: Option<String>,
}

/// A resource of the host that no computer owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostLeftover {
    /// Kind, for example `loop device`.
    pub kind: String,
    /// Path or name.
    pub location: String,
    /// Why no computer owns it.
    pub reason: String,
    /// What `hotdesk doctor --repair --yes` does with it.
    pub remedy: String,
}
