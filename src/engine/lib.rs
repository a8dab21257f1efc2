//! Floor 4: how are machines made? The seam between the fleet and whatever runs a computer.
//!
//! An engine makes *machines*; the controller calls a machine that belongs to somebody a *computer*. Every verb is
//! idempotent: asking for what is already so succeeds. Ability is data, read before calling. Everything a machine
//! leaves on its host is labelled with the computer's id and generation before it is used, so that a controller that
//! crashed can find it again (threats.md T18).
//!
//! `container` and `qemu` differ in how a guest runs. What they have in common lies beside them: the frames of the verbs
//! (`machinery`) and the parts of a host that these use, folders and locks, disks and their copies, slots, networks, control
//! groups, saved memory.

use std::time::Duration;

use async_trait::async_trait;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
pub use hotdesk_domain::endpoint::Endpoint;
use hotdesk_domain::resolution::Resolution;

mod addresses;
mod agent;
mod away;
mod bandwidth;
mod cgroup;
mod command;
pub mod container;
mod copy;
mod disk;
mod kernel;
mod layout;
mod leftovers;
mod lock;
mod loopdev;
mod machinery;
mod memory;
mod mounted;
mod network;
mod process;
pub mod qemu;
mod quota;
pub mod saved;
pub mod simulated;
mod slots;
mod staged;
mod still;
mod sweep;
mod trash;
mod unfinished;

pub use self::addresses::{Addresses, NetworkConfig, Subnet};
pub use self::disk::DiskSpeed;
pub use self::leftovers::{Leftover, Leftovers};
pub use self::saved::{Extents, Place, SavedFile, SavedState};

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
    /// What is saved of a machine can be read, evicted and put back.
    pub evict: bool,
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
    /// Most that it may send and receive, in megabits a second each way; 0 is without a bound.
    pub bandwidth_mbps: u32,
}

/// One dimension of a machine's hardware with its new size, for [`Engine::resize`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// vCPUs.
    Cpu(f64),
    /// Memory in bytes.
    Memory(u64),
    /// Disk in bytes; it never shrinks.
    Disk(u64),
    /// Megabits a second each way; 0 is without a bound.
    Bandwidth(u32),
}

/// When a change of hardware holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Since now.
    Live,
    /// When the machine starts again from its disk, with the changed [`MachineSpec`].
    AtNextStart,
}

/// What a snapshot took on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Bytes on the host's disk.
    pub bytes: u64,
    /// Whether it holds memory besides the disk.
    pub memory: bool,
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
    /// It does not run; its disk and its memory are saved, and [`Engine::resume`] continues it. Whether they are on this
    /// host is told by [`Engine::saved`].
    Suspended {
        /// The generation of the boot that it ran since.
        generation: u64,
    },
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
    /// This engine, or this machine as it is set up, cannot do it; what cannot be done.
    Unsupported(&'static str),
    /// What was saved is not what was written: a checksum differs or a part is missing. Never booted.
    Damaged(String),
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
            Self::Unsupported(what) => write!(f, "the engine cannot {what}"),
            Self::Damaged(what) => write!(f, "what was saved is damaged: {what}"),
            Self::Failed { step, detail } => write!(f, "could not {step}: {detail}"),
        }
    }
}

impl std::error::Error for EngineError {}

/// One thing of a host that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// Whether it serves.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do when it does not serve; empty otherwise.
    pub mend: &'static str,
}

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

    /// Called by stop, restart and delete. The guest is asked to end, killed after `grace` (a while later where it is
    /// still writing back), and on return nothing of it runs; the disk is kept and flushed.
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

    /// Called by suspend, where [`Capabilities::suspend`]. On return nothing of the machine runs, memory and disk are on
    /// the host's disk (synced), and [`Engine::observe`] says `Suspended`. On error it runs on as if nothing had been
    /// asked, or, where that is not possible, is `Stopped`; nothing is left of the try.
    async fn suspend(&self, _id: ComputerId) -> EngineResult<()> {
        Err(EngineError::Unsupported("save memory"))
    }

    /// Called by resume, start and ensure-running of a suspended computer. On return the machine goes on from where it
    /// was, labelled with `boot.generation`; its agent still has the token of the boot that was saved, until
    /// `Guest::renew` gives it `boot.token`. Saved memory is used once: it is dropped before the guest runs on, because
    /// the disk changes from then on; until that moment `observe` says `Suspended`, and resume can be called again. A
    /// machine that already runs with the same generation is left alone.
    ///
    /// # Errors
    /// `Damaged` when what was saved is not whole; nothing was booted then and nothing removed.
    async fn resume(&self, _spec: &MachineSpec, _boot: &Boot) -> EngineResult<Endpoint> {
        Err(EngineError::Unsupported("continue from saved memory"))
    }

    /// Called by stop and restart of a suspended computer. On return saved memory is gone and `observe` says `Stopped`.
    /// A machine without saved memory is left alone.
    async fn discard_memory(&self, _id: ComputerId) -> EngineResult<()> {
        Ok(())
    }

    /// What is saved of a suspended machine; `None` for any other. Reads only.
    async fn saved(&self, _id: ComputerId) -> EngineResult<Option<SavedState>> {
        Ok(None)
    }

    /// The data of a saved file from an offset on, at most `most` bytes; none is left when there are no places. Called
    /// where [`Capabilities::evict`], for a machine whose saved state is here and which nobody resumes meanwhile.
    async fn read_saved(
        &self,
        _id: ComputerId,
        _file: &str,
        _from: u64,
        _most: usize,
    ) -> EngineResult<Extents> {
        Err(EngineError::Unsupported("read what is saved"))
    }

    /// Called for a suspended machine once a copy of its saved state is whole elsewhere. On return that takes no room on
    /// the host, `observe` still says `Suspended`, and [`Engine::saved`] says `Away`. A call that was cut short, and what
    /// was fetched of a state that did not arrive, are finished by the next.
    async fn evict(&self, _id: ComputerId) -> EngineResult<()> {
        Err(EngineError::Unsupported("evict what is saved"))
    }

    /// Puts data of a file of an evicted state back, with the file's length; pieces may come in any order.
    async fn write_saved(&self, _id: ComputerId, _file: &SavedFile, _data: Extents) -> EngineResult<()> {
        Err(EngineError::Unsupported("put back what was saved"))
    }

    /// Every piece was put back. On return the machine is `Suspended` with its state `Arrived`; `Stopped` when its memory
    /// was left out.
    ///
    /// # Errors
    /// `Damaged` when a file is missing; the state is away still.
    async fn arrived(&self, _id: ComputerId, _with_memory: bool) -> EngineResult<()> {
        Err(EngineError::Unsupported("put back what was saved"))
    }

    /// On return what was fetched of a machine, which may run by now, is on the host's disk: a power cut leaves it there. A
    /// machine that fetched nothing is left alone.
    async fn converge(&self, _id: ComputerId) -> EngineResult<()> {
        Ok(())
    }

    /// Called by resize, for a machine that runs or is stopped, once per dimension, after the intent is stored. Tells
    /// whether the change holds already. On error the dimension is as before.
    async fn resize(&self, _id: ComputerId, _change: Change) -> EngineResult<Effect> {
        Err(EngineError::Unsupported("change a machine's hardware"))
    }

    /// Called by clone instead of [`Engine::create`], after the new computer's row is stored. On return `to` exists and
    /// is `Stopped`, with the disk of `from` as it was at one moment of this call; a source that runs (allowed with
    /// [`Capabilities::copy_while_running`]) has its file systems flushed first and goes on. `to.disk_bytes` is at least
    /// the source's. On error `destroy(to)` removes what was made.
    async fn copy_disk(&self, _from: ComputerId, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy a disk"))
    }

    /// Called by fork, where [`Capabilities::memory_snapshot`]. As [`Engine::copy_disk`] with the memory of the same
    /// moment: on return `to` is `Suspended` and `from` goes on. What goes on from another's memory has what its
    /// host gives a machine (link address, machine-id) when [`Engine::resume`] returns; the rest is renewed by its agent.
    async fn fork(&self, _from: ComputerId, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy memory"))
    }

    /// Called by a fork of a snapshot, where [`Capabilities::memory_snapshot`]. As [`Engine::fork`], from the snapshot with
    /// memory that is kept of `from`, which may do anything meanwhile: on return `to` is `Suspended`, and needs neither the
    /// snapshot nor `from` any more. Many machines may be made of one snapshot.
    ///
    /// # Errors
    /// `Damaged` when `from` has no such snapshot, or one without memory.
    async fn launch(&self, _from: ComputerId, _snapshot: uuid::Uuid, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy memory"))
    }

    /// Called after the snapshot's row is stored. Keeps the disk as it is at one moment, and memory if `memory`, under
    /// the snapshot's id. One that exists is left alone. The machine goes on as it was.
    async fn snapshot(
        &self,
        _id: ComputerId,
        _snapshot: uuid::Uuid,
        _memory: bool,
    ) -> EngineResult<Snapshot> {
        Err(EngineError::Unsupported("keep snapshots"))
    }

    /// Called for a machine that does not run; nothing of it needs to be here, and what is [`Place::Away`] is not fetched. On
    /// return its disk is the snapshot's and is here, and it is `Suspended` when the snapshot holds memory, else `Stopped`.
    /// The snapshot stays. On error the machine is as before.
    async fn rollback(&self, _id: ComputerId, _snapshot: uuid::Uuid) -> EngineResult<()> {
        Err(EngineError::Unsupported("keep snapshots"))
    }

    /// Removes a snapshot; one that is not there is removed already.
    async fn remove_snapshot(&self, _id: ComputerId, _snapshot: uuid::Uuid) -> EngineResult<()> {
        Ok(())
    }

    /// The snapshots on the host, whether a row knows them or not; called by reconciliation.
    async fn snapshots(&self, _id: ComputerId) -> EngineResult<Vec<uuid::Uuid>> {
        Ok(Vec::new())
    }
}
