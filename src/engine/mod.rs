//! Floor 4: how are machines made? The seam between the fleet and whatever runs a computer.
//!
//! An engine makes *machines*; the controller calls a machine that belongs to somebody a *computer*. Every verb is
//! idempotent: asking for what is already so succeeds. Ability is data, read before calling. Everything a machine
//! leaves on its host is labelled with the computer's id and generation before it is used, so that a controller that
//! crashed can find it again (threats.md T18).

use std::time::Duration;

use async_trait::async_trait;

use crate::base::ids::ComputerId;
use crate::base::secret::Secret;
pub use crate::domain::endpoint::Endpoint;
use crate::domain::resolution::Resolution;

pub mod container;
pub mod simulated;

/// What an engine can do beyond the verbs that every engine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Memory and disk can be saved and continued.
    pub suspend: bool,
    /// CPU can change while running.
    pub live_cpu: bool,
    /// RAM can change while running.
    pub live_ram: bool,
    /// Disk can grow while running.
    pub live_disk: bool,
    /// A disk can be copied while its machine runs.
    pub copy_while_running: bool,
    /// Machines can be launched from a memory snapshot.
    pub memory_snapshot: bool,
    /// Machines can move between hosts.
    pub move_hosts: bool,
    /// Machines can have a GPU.
    pub gpu: bool,
}

/// What a machine is made of; fixed from create until resize.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// The computer it belongs to; the label of everything the engine leaves on the host.
    pub id: ComputerId,
    /// vCPUs; a fraction is a share of one core.
    pub cpu: f64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Disk in bytes: the most that the guest can store.
    pub disk_bytes: u64,
}

/// What a machine needs to know at one boot. Secrets reach the guest by a file that only its root reads, never by
/// argv or environment.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Counts this computer's starts; a label of what runs (fencing, threats.md design 3).
    pub generation: u64,
    /// The agent's bearer token, new at every boot.
    pub token: Secret,
    /// Size of the boot screen.
    pub resolution: Resolution,
}

/// What an engine sees of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It has no disk on the host. Leftovers of a create that was cut short may be there: [`Engine::list`] names
    /// them, create completes them, destroy removes them.
    Absent,
    /// Its disk is there; it does not run.
    Stopped,
    /// It runs, since the boot with this generation.
    Running {
        /// The generation of the boot that it runs since.
        generation: u64,
        /// Where its agent answers.
        endpoint: Endpoint,
        /// Its address in the host's private network, when it has one.
        address: Option<std::net::IpAddr>,
    },
}

/// Why an engine refused or failed. The text is for the log; the controller chooses what a client reads.
#[derive(Clone, Debug)]
pub enum EngineError {
    /// The host has no room left (disk, memory, addresses, loop devices).
    NoCapacity(String),
    /// The machine is not there.
    Absent,
    /// A step failed; what it was and how.
    Failed {
        /// The step, for example `mount the overlay`.
        step: &'static str,
        /// What the step said.
        detail: String,
    },
}

impl EngineError {
    /// A step that failed.
    pub fn failed(step: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Failed { step, detail: detail.to_string() }
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCapacity(what) => write!(f, "no capacity: {what}"),
            Self::Absent => f.write_str("no such machine"),
            Self::Failed { step, detail } => write!(f, "could not {step}: {detail}"),
        }
    }
}

impl std::error::Error for EngineError {}

/// What every engine's verb returns.
pub type EngineResult<T> = Result<T, EngineError>;

/// Something that makes machines.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// The engine's name, as the configuration says it.
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Called by a create, after the computer's row with its intent is stored. On return the machine's disk exists
    /// and [`Engine::observe`] says `Stopped`. On error whatever was made may be left for [`Engine::destroy`].
    async fn create(&self, spec: &MachineSpec) -> EngineResult<()>;

    /// Called by start, restart and create. On return the machine runs since `boot` (a machine that already runs with
    /// the same generation is left alone; one of another generation is an error); its agent may still be starting.
    /// On error nothing runs; mounts may be left for `stop` or `destroy`.
    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint>;

    /// Called by stop, restart and delete. The guest is asked to end, killed after `grace`, and on return nothing of
    /// it runs; the disk is kept and flushed.
    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()>;

    /// Called by delete and by the undo of a create. On return nothing of the machine is left on the host. A machine
    /// that runs is killed first.
    async fn destroy(&self, id: ComputerId) -> EngineResult<()>;

    /// Called at adoption and whenever the truth is needed. Reads only.
    async fn observe(&self, id: ComputerId) -> EngineResult<Observation>;

    /// Every machine of this engine's state folder, whether a row knows it or not; called by reconciliation.
    async fn list(&self) -> EngineResult<Vec<ComputerId>>;

    /// Waits until the machine no longer runs (returns at once when it does not). Called by the computer's runner to
    /// learn of a crash; must cost nothing while waiting.
    async fn stopped(&self, id: ComputerId) -> EngineResult<()>;
}
