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
mod copies;
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

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use self::boot::{Record, Starter};
pub use self::config::QemuConfig;
use super::layout::{self, Folder, StateDir, private_folder};
use super::{
    Boot, Capabilities, Change, Effect, Endpoint, Engine, EngineError, EngineResult, MachineSpec,
    Observation, Snapshot, cgroup, command, disk, lock, memory, trash,
};
use crate::base::ids::ComputerId;

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
    /// Opens a state folder, making it when missing, and finishes what a destroy left there. Machines that run are
    /// found by [`Engine::list`] and [`Engine::observe`].
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
        Ok(Self { inner: Arc::new(Inner { config, state, agent }) })
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

    fn swept_state(config: &QemuConfig) -> EngineResult<StateDir> {
        let state = StateDir::open(&config.state_dir)?;
        trash::empty(&state)?;
        Ok(state)
    }

    /// Runs a step that blocks. It runs to its end whatever becomes of the caller.
    async fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Inner) -> EngineResult<T> + Send + 'static,
    ) -> EngineResult<T> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || step(&inner)).await;
        done.unwrap_or_else(|error| Err(EngineError::failed("finish a step", error)))
    }
}

impl Inner {
    /// The record of the boot since which a machine's QEMU runs, and its process.
    fn running(&self, folder: &Folder) -> EngineResult<Option<(Record, u32)>> {
        let Some(record) = Record::read(folder)? else { return Ok(None) };
        Ok(cgroup::processes(folder.id)?.first().map(|pid| (record, *pid)))
    }

    fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        let folder = self.state.folder(id);
        if !folder.is_whole()? {
            return Ok(Observation::Absent);
        }
        if let Some(saved) = memory::Saved::find(&folder)? {
            return Ok(Observation::Suspended { generation: saved.generation });
        }
        let Some((record, _)) = self.running(&folder)? else { return Ok(Observation::Stopped) };
        Ok(Observation::Running {
            generation: record.generation,
            endpoint: Endpoint::Tcp(record.agent),
            address: record.networked.then(|| record.agent.ip()),
        })
    }
}

#[async_trait]
impl Engine for QemuEngine {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            suspend: true,
            live_cpu: true,
            live_ram: true,
            live_disk: true,
            copy_while_running: true,
            ..Capabilities::default()
        }
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        const STEP: &str = "make the machine's folder";
        let folder = self.inner.state.folder(spec.id);
        private_folder(&folder.path).map_err(command::host_error(STEP, &folder.path))?;
        let Some(held) = lock::machine(&folder).await? else {
            return Err(EngineError::failed(STEP, "it was destroyed while being made"));
        };
        let spec = spec.clone();
        self.blocking(move |_| {
            let _held = held;
            if folder.is_whole()? {
                return Ok(());
            }
            disk::check_reserve(&folder.path)?;
            folder.write_record(&layout::Record::of(&spec))?;
            disk::make(&folder, spec.disk_bytes)
        })
        .await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let folder = self.inner.state.folder(spec.id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        let id = spec.id;
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
                return Ok(endpoint);
            }
            Observation::Running { generation, .. } => {
                let detail = format!("it runs since boot {generation}, not {}", boot.generation);
                return Err(EngineError::failed("start the machine", detail));
            }
            Observation::Suspended { .. } => {
                let detail = "its memory is saved: resume it, or discard that first";
                return Err(EngineError::failed("start the machine", detail));
            }
            Observation::Stopped => self.sweep(&folder).await?,
        }
        let (plan, of, boot) = (folder.clone(), spec.clone(), boot.clone());
        let held = Arc::new(held);
        let locked = Arc::clone(&held);
        let started = self.blocking(move |inner| {
            plan.write_record(&layout::Record::of(&of))?;
            inner.starter(&locked).start(&plan, &of, &boot)
        });
        let started = started.await;
        if started.is_err()
            && let Err(left) = self.sweep(&folder).await
        {
            tracing::warn!(computer = %id, error = %left, "a failed start left something behind");
        }
        started
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        self.halt(&folder, grace).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        if let Some(_held) = lock::machine(&folder).await? {
            self.halt(&folder, Duration::ZERO).await?;
            self.blocking(move |inner| trash::folder(&inner.state, &folder)).await?;
        }
        self.blocking(move |inner| trash::of(&inner.state, id)).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        self.blocking(move |inner| inner.observe(id)).await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.blocking(|inner| inner.state.list()).await
    }

    async fn stopped(&self, id: ComputerId) -> EngineResult<()> {
        self.ended(id).await
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        self.change(id, change).await
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.copy(from, to).await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        if memory { Err(EngineError::Unsupported("keep memory")) } else { self.keep(id, snapshot).await }
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.check_kept(id, snapshot).await?;
        // Memory of another disk must not go on with this one.
        self.discard_memory(id).await?;
        self.roll_back(id, snapshot).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        self.forget(id, snapshot).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        self.kept(id).await
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        self.keep_memory(id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.continue_memory(spec, boot).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        self.drop_memory(id).await
    }
}

impl Inner {
    fn starter<'a>(&'a self, held: &'a lock::MachineLock) -> Starter<'a> {
        let accelerator = accelerator::of_this_host(&self.config).accelerator;
        Starter { config: &self.config, accelerator, agent: &self.agent, held }
    }
}
