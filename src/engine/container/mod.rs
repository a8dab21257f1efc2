//! The engine `container`: OCI containers over a guest image, each with its own user ids, disk, network and socket.
//!
//! ```text
//!            create                  start: stage, runtime create, network, runtime start
//!   Absent ----------> Stopped ------------------------------------------------> Running
//!      ^                 |  ^------------------------------------------------------|
//!      |---- destroy ----|       stop: TERM, grace, KILL; sweep   (or its init ends)
//! ```
//! A machine outlives its controller: nothing of it is a child, a mount or a descriptor of the controller's. All that
//! is known about it is in its folder, in the runtime's record and in the kernel, so any later controller on the same
//! state folder finds it. Verbs run on threads of their own: a caller that goes away cuts no step in half.

mod away;
mod boot;
mod config;
mod copies;
mod gvisor;
mod halt;
mod idmap;
mod leftovers;
mod oci;
pub mod probe;
mod resize;
mod runtime;
mod seccomp;
mod stage;
mod throttle;
mod unfinished;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::config::{ContainerConfig, DiskSpeed};
use self::layout::{Folder, Record, StateDir, private_folder};
pub use self::leftovers::Leftover;
pub(super) use self::oci::init_args;
use self::runtime::{Kind, Runtime, State};
pub use super::addresses::{Addresses, NetworkConfig, Subnet};
pub use super::network::AGENT_PORT;
use super::{
    Boot, Capabilities, Change, Effect, Endpoint, Engine, EngineError, EngineResult, Extents, MachineSpec,
    Observation, SavedFile, SavedState, Snapshot,
};
use super::{
    addresses, agent, bandwidth, cgroup, command, copy, disk, kernel, layout, lock, loopdev, memory, network,
    process, quota, slots, staged, still, sweep, trash,
};
use crate::base::ids::ComputerId;
use async_trait::async_trait;
use uuid::Uuid;

/// The engine `container`. Cheap to clone; several may share a state folder for a while (adoption), one at a time works
/// on a machine.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ContainerConfig,
    state: StateDir,
    runtime: Runtime,
    /// The executable that guests run as their agent.
    agent: PathBuf,
}

impl ContainerEngine {
    /// Opens a state folder, making it when missing, finishes what a destroy left there and puts right what a controller
    /// that was killed left in the middle. Machines that run are found by [`Engine::list`] and [`Engine::observe`].
    ///
    /// # Errors
    /// When the state folder, the image or the agent is not there or cannot be used.
    pub fn open(mut config: ContainerConfig) -> EngineResult<Self> {
        for path in [&mut config.image, &mut config.agent_binary] {
            let found = std::fs::canonicalize(&*path);
            *path = found.map_err(command::host_error("find the image and the agent", path))?;
        }
        let rootfs = config.image.join("rootfs");
        if !rootfs.is_dir() {
            return Err(EngineError::failed(
                "find the guest image",
                format!("{} is no folder", rootfs.display()),
            ));
        }
        let state = Self::swept_state(&config)?;
        let agent = agent::keep(&config.agent_binary, &state)?;
        let this = Self::over(config, state, agent);
        unfinished::put_right(&this.inner)?;
        Ok(this)
    }

    /// As [`Self::open`], to take machines away: that needs neither the image nor the agent, which may be gone, nor room
    /// for a copy of the agent on a disk that may be full.
    ///
    /// # Errors
    /// When the state folder cannot be used.
    pub fn open_to_remove(config: ContainerConfig) -> EngineResult<Self> {
        let state = Self::swept_state(&config)?;
        let agent = config.agent_binary.clone();
        Ok(Self::over(config, state, agent))
    }

    fn swept_state(config: &ContainerConfig) -> EngineResult<StateDir> {
        let state = StateDir::open(&config.state_dir)?;
        trash::empty(&state)?;
        Ok(state)
    }

    fn over(config: ContainerConfig, state: StateDir, agent: PathBuf) -> Self {
        let runtime = Runtime::new(&config.runtime, state.runtime());
        Self { inner: Arc::new(Inner { config, state, runtime, agent }) }
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

    /// What the runtime says about a machine in this boot of the host; `None` when nothing of it can run.
    async fn state(&self, id: ComputerId) -> EngineResult<Option<State>> {
        self.blocking(move |inner| inner.state_of(id)).await
    }

    fn keeps_memory(&self) -> EngineResult<()> {
        match self.inner.runtime.kind() {
            Kind::Gvisor => Ok(()),
            Kind::Shared => Err(EngineError::Unsupported("save memory with this OCI runtime")),
        }
    }

    /// Lets the machine's record say what it is started as: its size may have changed since.
    fn keep_record(&self, folder: &Folder, spec: &MachineSpec) -> EngineResult<()> {
        let record = Record::of(spec);
        if folder.read_record()? == record { Ok(()) } else { folder.write_record(&record) }
    }
}

impl Inner {
    fn state_of(&self, id: ComputerId) -> EngineResult<Option<State>> {
        let folder = self.state.folder(id);
        if !folder.boot_config().exists() {
            return Ok(None);
        }
        let boot =
            process::boot_id().map_err(|error| EngineError::failed("read the host's boot id", error))?;
        let Some(mut state) =
            self.runtime.state(id)?.filter(|state| state.annotations.get(oci::HOST_BOOT) == Some(&boot))
        else {
            return Ok(None);
        };
        // Some runtimes count a process that has ended as there until its parent takes note of it.
        let failed = |error| EngineError::failed("look at the guest's first process", error);
        if let Some(first) = process::open(state.pid).map_err(failed)?
            && process::wait_exit(&first, Instant::now()).map_err(failed)?
        {
            state.status = "stopped".to_owned();
        }
        Ok(Some(state))
    }

    fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        let folder = self.state.folder(id);
        if let Some(generation) = away::generation(&folder)? {
            return Ok(Observation::Suspended { generation });
        }
        if !folder.is_whole()? {
            return Ok(Observation::Absent);
        }
        if let Some(saved) = memory::Saved::find(&folder)? {
            return Ok(Observation::Suspended { generation: saved.generation });
        }
        // A guest stands still while its memory is saved, and goes on if that fails.
        let lives = |state: &State| ["running", "paused"].contains(&state.status.as_str());
        let Some(state) = self.state_of(id)?.filter(lives) else { return Ok(Observation::Stopped) };
        let label = |name: &str| state.annotations.get(name).map_or("", String::as_str);
        let generation = label(oci::GENERATION).parse().map_err(|error| {
            EngineError::failed("read the generation", format!("{:?}: {error}", label(oci::GENERATION)))
        })?;
        Ok(Observation::Running {
            generation,
            endpoint: label(oci::AGENT)
                .parse()
                .map_or_else(|_| Endpoint::Unix(folder.socket()), Endpoint::Tcp),
            address: label(oci::ADDRESS).parse::<IpAddr>().ok(),
        })
    }
}

#[async_trait]
impl Engine for ContainerEngine {
    fn name(&self) -> &'static str {
        "container"
    }

    fn capabilities(&self) -> Capabilities {
        let kernel_of_its_own = self.inner.runtime.kind() == Kind::Gvisor;
        Capabilities {
            suspend: kernel_of_its_own,
            live_cpu: true,
            live_ram: !kernel_of_its_own,
            live_disk: !kernel_of_its_own && disk::grows_live(),
            // A kernel in user space holds none of a file's content back: it writes through the host's descriptors.
            copy_while_running: true,
            memory_snapshot: kernel_of_its_own,
            evict: kernel_of_its_own,
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
            folder.write_record(&Record::of(&spec))?;
            disk::make(&folder, spec.disk_bytes)
        })
        .await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let folder = self.inner.state.folder(spec.id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        let held = Arc::new(held);
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
        self.keep_record(&folder, spec)?;
        let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&held));
        let started = self.blocking(move |inner| {
            let (config, runtime) = (&inner.config, &inner.runtime);
            let agent = &match runtime.kind() {
                Kind::Shared => inner.agent.clone(),
                Kind::Gvisor => gvisor::keep_agent(&plan, &inner.agent)?,
            };
            let starter = boot::Starter { config, runtime, agent, wanted_slot: None, held: &locked };
            starter.start(&plan, &of, &boot)
        });
        match started.await {
            Ok(endpoint) => Ok(endpoint),
            Err(error) => {
                if let Err(left) = self.sweep(&folder).await {
                    tracing::warn!(computer = %id, error = %left, "a failed start left something behind");
                }
                Err(error)
            }
        }
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

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        self.keeps_memory()?;
        self.copy_memory(from, to).await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        if !memory {
            return self.keep(id, snapshot).await;
        }
        self.keeps_memory()?;
        self.keep_moment(id, snapshot).await
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
        self.keeps_memory()?;
        self.keep_memory(id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        self.keeps_memory()?;
        self.continue_memory(spec, boot).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        self.drop_memory(id).await
    }

    async fn saved(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        self.blocking(move |inner| away::saved(&inner.state.folder(id))).await
    }

    async fn read_saved(&self, id: ComputerId, file: &str, from: u64, most: usize) -> EngineResult<Extents> {
        let file = file.to_owned();
        self.blocking(move |inner| away::read(&inner.state.folder(id), &file, from, most)).await
    }

    async fn evict(&self, id: ComputerId) -> EngineResult<()> {
        self.send_away(id).await
    }

    async fn write_saved(&self, id: ComputerId, file: &SavedFile, data: Extents) -> EngineResult<()> {
        let file = file.clone();
        self.blocking(move |inner| away::write(&inner.state.folder(id), &file, &data)).await
    }

    async fn arrived(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        self.take_back(id, with_memory).await
    }

    async fn converge(&self, id: ComputerId) -> EngineResult<()> {
        self.make_durable(id).await
    }
}
