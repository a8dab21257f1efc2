//! The engine `qemu`: virtual machines over the container engine's image and disks, one QEMU process each.
//!
//! ```text
//!            create            start: record, seed, groups, link, QEMU
//!   Absent ----------> Stopped ---------------------------------------> Running
//!      ^                 |  ^---------------------------------------------|   ^
//!      |---- destroy ----|    stop: asked, grace, KILL; sweep  (or it ends)    |
//!                        ^                                                    | migrate to a file and back
//!                        |----------- discard ------------ Suspended <--------|
//! ```
//! A machine outlives its controller: QEMU is nobody's child, and whatever is known of it is in its folder, its control
//! groups and its monitor. Verbs run on threads of their own: a caller that goes away cuts no step in half.

mod accelerator;
mod boot;
mod config;
mod halt;
mod hardware;
mod images;
mod line;
mod link;
mod monitor;
pub mod probe;
mod resize;
mod seed;
mod suspend;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::boot::{Record, Starter};
pub use self::config::QemuConfig;
use self::monitor::Monitor;
use super::layout::{self, Folder, StateDir};
use super::lock::MachineLock;
use super::machinery::Machinery;
use super::memory::Manifest;
use super::{
    Boot, Capabilities, Change, Effect, Endpoint, EngineError, EngineResult, Leftovers, MachineSpec,
    Observation, cgroup, command, copy, still, trash, unfinished,
};
use hotdesk_base::ids::ComputerId;

/// How long a guest may take to write back what it holds: a gigabyte on a slow disk.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to take back a freeze that was given up: who holds the machine's lock is waited for.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The engine `qemu`. Cheap to clone; several may share a state folder for a while (adoption), one at a time works on a
/// machine.
#[derive(Clone, Debug)]
pub struct QemuEngine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: QemuConfig,
    state: StateDir,
    /// The disk with the executable that guests run as their agent.
    agent: PathBuf,
}

impl QemuEngine {
    /// Opens a state folder, making it when missing, finishes what a destroy left there and puts right what a controller
    /// that was killed left in the middle. Machines that run are found by `list` and `observe`.
    ///
    /// # Errors
    /// When the state folder, the kernel, the image or the agent is not there or cannot be used.
    pub fn open(mut config: QemuConfig) -> EngineResult<Self> {
        for path in [&mut config.image, &mut config.agent_binary, &mut config.kernel] {
            let found = std::fs::canonicalize(&*path);
            *path = found.map_err(command::host_error("find the kernel, the image and the agent", path))?;
        }
        for path in [config.image.join("rootfs"), config.kernel.join("kernel"), config.kernel.join("initrd")]
        {
            if !path.exists() {
                let detail = format!("{} is not there", path.display());
                return Err(EngineError::failed("find the guests' image and kernel", detail));
            }
        }
        let state = Self::swept_state(&config)?;
        let agent = images::of_agent(&config.agent_binary, &state)?;
        let this = Self { inner: Arc::new(Inner { config, state, agent }) };
        unfinished::put_right(&this)?;
        Ok(this)
    }

    /// As [`Self::open`], to take machines away: that needs neither the image nor the agent, which may be gone, nor room
    /// for a copy of the agent on a disk that may be full.
    ///
    /// # Errors
    /// When the state folder cannot be used.
    pub fn open_to_remove(config: QemuConfig) -> EngineResult<Self> {
        let state = Self::swept_state(&config)?;
        let agent = config.agent_binary.clone();
        Ok(Self { inner: Arc::new(Inner { config, state, agent }) })
    }

    /// As [`Self::open_to_remove`], changing nothing in the state folder.
    ///
    /// # Errors
    /// When the state folder cannot be used.
    pub fn open_to_look(config: QemuConfig) -> EngineResult<Self> {
        let state = StateDir::open(&config.state_dir)?;
        let agent = config.agent_binary.clone();
        Ok(Self { inner: Arc::new(Inner { config, state, agent }) })
    }

    /// What of it nobody owns.
    pub fn leftovers(self) -> Leftovers {
        let (state, network) = (self.inner.state.clone(), self.inner.config.network.clone());
        Leftovers { engine: Arc::new(self), state, network }
    }

    fn swept_state(config: &QemuConfig) -> EngineResult<StateDir> {
        let state = StateDir::open(&config.state_dir)?;
        trash::empty(&state)?;
        Ok(state)
    }
}

impl Inner {
    /// The record of the boot since which a machine's QEMU runs, and its process.
    fn running(&self, folder: &Folder) -> EngineResult<Option<(Record, u32)>> {
        let Some(record) = Record::read(folder)? else { return Ok(None) };
        Ok(cgroup::processes(folder.id)?.first().map(|pid| (record, *pid)))
    }

    fn starter<'a>(&'a self, held: &'a MachineLock) -> Starter<'a> {
        let accelerator = accelerator::of_this_host(&self.config).accelerator;
        Starter { config: &self.config, accelerator, agent: &self.agent, held }
    }

    /// Copies a machine's disk as it is at one moment, whether the machine runs or not: it is the guest that lets the file system
    /// of a disk in use hold still.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        let runs = self.running(source)?.is_some();
        copy::disk_during(&source.disk(), fresh, to, |copy| {
            if !runs {
                return copy(None);
            }
            if let Err(error) = line::ask(source, "freeze", FREEZE_TIMEOUT) {
                // What comes after it on the line undoes one that the guest still gets to.
                if let Err(late) = line::ask(source, "thaw", SHORT_TIMEOUT) {
                    tracing::warn!(computer = %source.id, error = %late, "a guest that holds still goes on by itself");
                }
                return Err(error);
            }
            let copied = copy(Some(Instant::now() + still::LONGEST_STILL));
            // It fails when writes went on before: what was copied since is not of one moment.
            let thawed = line::ask(source, "thaw", FREEZE_TIMEOUT);
            copied.and_then(|copied| thawed.map(|()| copied))
        })
    }
}

impl Machinery for QemuEngine {
    const NAME: &'static str = "qemu";

    fn abilities(&self) -> Capabilities {
        Capabilities {
            suspend: true,
            live_cpu: true,
            live_ram: true,
            live_disk: true,
            copy_while_running: true,
            memory_snapshot: true,
            evict: true,
            ..Capabilities::default()
        }
    }

    fn state(&self) -> &StateDir {
        &self.inner.state
    }

    fn seen(&self, folder: &Folder) -> EngineResult<Observation> {
        let Some((record, _)) = self.inner.running(folder)? else { return Ok(Observation::Stopped) };
        Ok(Observation::Running {
            generation: record.generation,
            endpoint: Endpoint::Tcp(record.agent),
            address: record.networked.then(|| record.agent.ip()),
        })
    }

    fn goes_on(&self, folder: &Folder) -> EngineResult<bool> {
        let runs = self.inner.running(folder)?.is_some();
        Ok(runs && !suspend::stands(&mut Monitor::open(&folder.monitor())?)?)
    }

    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.starter(held).start(folder, spec, boot)
    }

    fn apply(&self, folder: &Folder, before: &layout::Record, change: Change) -> EngineResult<Effect> {
        self.inner.apply(folder, before, change)
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        self.inner.copy_disk(source, fresh, to)
    }

    fn moment(&self, source: &Folder, memory: &Path, fresh: &Path, to: &Path) -> EngineResult<Manifest> {
        self.inner.moment(source, memory, fresh, to)
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        self.inner.save(folder, generation)
    }

    fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.restore(folder, spec, boot, held)
    }

    async fn undo_restore(&self, folder: &Folder) -> EngineResult<()> {
        self.end(folder, Duration::ZERO).await
    }

    async fn halt(&self, folder: &Folder, grace: Duration) -> EngineResult<()> {
        self.end(folder, grace).await
    }

    async fn sweep(&self, folder: &Folder) -> EngineResult<()> {
        self.clear(folder).await
    }

    async fn ended(&self, id: ComputerId) -> EngineResult<()> {
        self.wait_for_end(id).await
    }
}
