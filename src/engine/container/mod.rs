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

mod boot;
mod config;
mod gvisor;
mod halt;
mod hardware;
mod idmap;
mod oci;
pub mod probe;
mod runtime;
mod seccomp;
mod stage;
mod throttle;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::config::ContainerConfig;
use self::layout::{Folder, Record, StateDir};
pub(super) use self::oci::init_args;
use self::runtime::{Kind, Runtime, State};
pub use super::addresses::{Addresses, NetworkConfig, Subnet};
pub use super::disk::DiskSpeed;
use super::lock::MachineLock;
use super::machinery::Machinery;
use super::memory::Manifest;
pub use super::network::AGENT_PORT;
use super::{
    Boot, Capabilities, Change, Effect, Endpoint, EngineError, EngineResult, Leftovers, MachineSpec,
    Observation,
};
use super::{
    addresses, agent, bandwidth, cgroup, command, copy, disk, kernel, layout, lock, loopdev, memory, network,
    process, quota, slots, staged, still, sweep, trash, unfinished,
};
use hotdesk_base::ids::ComputerId;

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
    /// that was killed left in the middle. Machines that run are found by `list` and `observe`.
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
        unfinished::put_right(&this)?;
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

    /// As [`Self::open_to_remove`], changing nothing in the state folder.
    ///
    /// # Errors
    /// When the state folder cannot be used.
    pub fn open_to_look(config: ContainerConfig) -> EngineResult<Self> {
        let state = StateDir::open(&config.state_dir)?;
        let agent = config.agent_binary.clone();
        Ok(Self::over(config, state, agent))
    }

    /// What of it nobody owns.
    pub fn leftovers(self) -> Leftovers {
        let (state, network) = (self.inner.state.clone(), self.inner.config.network.clone());
        Leftovers { engine: Arc::new(self), state, network }
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

    /// What the runtime says about a machine in this boot of the host; `None` when nothing of it can run.
    async fn state_of(&self, id: ComputerId) -> EngineResult<Option<State>> {
        self.blocking(move |engine| engine.inner.state_of(id)).await
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

    fn seen(&self, folder: &Folder) -> EngineResult<Observation> {
        // A guest stands still while its memory is saved, and goes on if that fails.
        let lives = |state: &State| ["running", "paused"].contains(&state.status.as_str());
        let Some(state) = self.state_of(folder.id)?.filter(lives) else { return Ok(Observation::Stopped) };
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

    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        let (config, runtime) = (&self.config, &self.runtime);
        let agent = &match runtime.kind() {
            Kind::Shared => self.agent.clone(),
            Kind::Gvisor => gvisor::keep_agent(folder, &self.agent)?,
        };
        boot::Starter { config, runtime, agent, wanted_slot: None, held }.start(folder, spec, boot)
    }
}

impl Machinery for ContainerEngine {
    const NAME: &'static str = "container";

    fn abilities(&self) -> Capabilities {
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

    fn state(&self) -> &StateDir {
        &self.inner.state
    }

    fn seen(&self, folder: &Folder) -> EngineResult<Observation> {
        self.inner.seen(folder)
    }

    fn goes_on(&self, folder: &Folder) -> EngineResult<bool> {
        Ok(self.inner.state_of(folder.id)?.is_some_and(|state| state.status == "running"))
    }

    fn let_in(&self, folder: &Folder) -> EngineResult<()> {
        match self.inner.runtime.kind() {
            Kind::Shared => Ok(()),
            Kind::Gvisor => self.inner.let_in(folder),
        }
    }

    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.boot(folder, spec, boot, held)
    }

    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        self.inner.apply(folder, before, change)
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        copy::disk(&source.disk(), fresh, to)
    }

    fn moment(&self, source: &Folder, memory: &Path, fresh: &Path, to: &Path) -> EngineResult<Manifest> {
        self.inner.moment(source, memory, fresh, to)
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        self.inner.save(folder, generation)
    }

    fn take_up(&self, folder: &Folder) -> EngineResult<()> {
        self.inner.take_up(folder)
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
        self.take_back(folder).await
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
