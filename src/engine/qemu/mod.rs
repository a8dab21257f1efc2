//! The engine `qemu`: virtual machines with the container engine's image and disks, one QEMU process each.
//!
//! ```text
//!            create            start: record, seed, groups, link, QEMU
//!   Absent ----------> Stopped ---------------------------------------> Running
//!      ^                 |  ^---------------------------------------------|   ^
//!      |---- destroy ----|    stop: request, grace, KILL; sweep (or it ends)    |
//!                        ^                                                    | migrate to a file and back
//!                        |----------- discard ------------ Suspended <--------|
//! ```
//! A machine outlives its controller: QEMU is not its child, and all that is known of it is in its folder,
//! its control groups and its monitor. Operations run on threads of their own: a dropped caller interrupts no
//! step.

mod accelerator;
mod boot;
mod config;
mod control_port;
mod halt;
mod hardware;
mod images;
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

use crate::driver::GuestDriver;
use crate::driver::recovery;
use crate::host::{cgroup, command, freeze};
use crate::qemu::boot::{BootRecord, Starter};
pub use crate::qemu::config::QemuConfig;
use crate::qemu::monitor::Monitor;
use crate::state::layout::{self, Folder, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::MemoryManifest;
use crate::state::{disk_copy, trash};
use crate::{
    Boot, Capabilities, Change, Effect, Endpoint, EngineError, EngineResult, Leftovers, MachineSpec,
    Observation,
};
use hotdesk_base::ids::ComputerId;

/// For a guest to write back its dirty data: a gigabyte on a slow disk.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(60);
/// For a guest to undo a freeze that failed. Short, because others wait for the machine's lock.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The engine `qemu`. Cheap to clone. Several may share a state folder while one adopts the machines of
/// another; one at a time works on a machine.
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
    /// Opens a state folder, making it when missing, and cleans up after a killed controller: interrupted
    /// destroys, frozen disks, unfinished files. `list` and `observe` find the machines that run.
    ///
    /// # Errors
    /// `Failed`, naming the path, when the state folder, the kernel, the image or the agent is missing or
    /// cannot be used.
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
        recovery::recover_interrupted(&this)?;
        Ok(this)
    }

    /// [`Self::open`] for the removal of machines only. It needs neither the image nor the agent, which may
    /// be gone, nor space on a full disk for a copy of the agent.
    ///
    /// # Errors
    /// `Failed` when the state folder cannot be used.
    pub fn open_to_remove(config: QemuConfig) -> EngineResult<Self> {
        let state = Self::swept_state(&config)?;
        let agent = config.agent_binary.clone();
        Ok(Self { inner: Arc::new(Inner { config, state, agent }) })
    }

    /// [`Self::open_to_remove`] without changes in the state folder.
    ///
    /// # Errors
    /// `Failed` when the state folder cannot be used.
    pub fn open_read_only(config: QemuConfig) -> EngineResult<Self> {
        let state = StateDir::open(&config.state_dir)?;
        let agent = config.agent_binary.clone();
        Ok(Self { inner: Arc::new(Inner { config, state, agent }) })
    }

    /// The search for leftovers in its state folder and on its host.
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
    /// The boot record and the pid of a machine's QEMU; `None` when it does not run.
    fn running(&self, folder: &Folder) -> EngineResult<Option<(BootRecord, u32)>> {
        let Some(record) = BootRecord::read(folder)? else { return Ok(None) };
        Ok(cgroup::processes(folder.id)?.first().map(|pid| (record, *pid)))
    }

    fn starter<'a>(&'a self, lock: &'a MachineLock) -> Starter<'a> {
        let accelerator = accelerator::detect(&self.config).accelerator;
        Starter { config: &self.config, accelerator, agent: &self.agent, lock }
    }

    /// Copies the disk of a running or stopped machine as of one moment. The guest freezes the file system of
    /// a disk in use.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        let runs = self.running(source)?.is_some();
        disk_copy::copy_disk_during(&source.disk(), fresh, to, |copy| {
            if !runs {
                return copy(None);
            }
            if let Err(error) = control_port::ask(source, "freeze", FREEZE_TIMEOUT) {
                // The guest processes requests in order: a late freeze is followed by this thaw.
                if let Err(late) = control_port::ask(source, "thaw", SHORT_TIMEOUT) {
                    tracing::warn!(computer = %source.id, error = %late, "could not thaw a guest after a failed freeze; it thaws by itself");
                }
                return Err(error);
            }
            let copied = copy(Some(Instant::now() + freeze::MAX_FREEZE));
            // Fails if the guest thawed before: the copy is then not of one moment.
            let thawed = control_port::ask(source, "thaw", FREEZE_TIMEOUT);
            copied.and_then(|copied| thawed.map(|()| copied))
        })
    }
}

impl GuestDriver for QemuEngine {
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

    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation> {
        let Some((record, _)) = self.inner.running(folder)? else { return Ok(Observation::Stopped) };
        Ok(Observation::Running {
            generation: record.generation,
            endpoint: Endpoint::Tcp(record.agent),
            address: record.networked.then(|| record.agent.ip()),
        })
    }

    fn is_executing(&self, folder: &Folder) -> EngineResult<bool> {
        let runs = self.inner.running(folder)?.is_some();
        Ok(runs && !suspend::is_paused(&mut Monitor::open(&folder.monitor())?)?)
    }

    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        lock: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.starter(lock).start(folder, spec, boot)
    }

    fn apply(&self, folder: &Folder, before: &layout::Record, change: Change) -> EngineResult<Effect> {
        self.inner.apply(folder, before, change)
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        self.inner.copy_disk(source, fresh, to)
    }

    fn save_with_disk(
        &self,
        source: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest> {
        self.inner.save_with_disk(source, memory, fresh, to)
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        self.inner.save(folder, generation)
    }

    fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        lock: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.restore(folder, spec, boot, lock)
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

    async fn wait_ended(&self, id: ComputerId) -> EngineResult<()> {
        self.wait_for_end(id).await
    }
}
