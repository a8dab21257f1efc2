//! The engine `container`: OCI containers over a guest image, each with its own user ids, disk, network and
//! socket.
//!
//! ```text
//!            create                  start: stage, runtime create, network, runtime start
//!   Absent ----------> Stopped ------------------------------------------------> Running
//!      ^                 |  ^------------------------------------------------------|
//!      |---- destroy ----|       stop: TERM, grace, KILL; sweep   (or its init ends)
//! ```
//! A machine outlives its controller: nothing of it is a child, a mount or a descriptor of the controller.
//! All that is known about it is in its folder, in the runtime's record and in the kernel. So any later
//! controller on the same state folder finds it. Operations run on threads of their own: a dropped caller
//! interrupts no step.

mod boot;
mod config;
mod gvisor;
mod halt;
mod idmap;
mod oci;
pub mod probe;
mod resize;
mod runsc;
mod runtime;
mod seccomp;
mod stage;
mod throttle;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::container::config::ContainerConfig;
pub(super) use crate::container::oci::init_args;
use crate::container::runtime::{ContainerState, Runtime, RuntimeKind};
use crate::driver::GuestDriver;
use crate::driver::recovery;
pub use crate::host::addresses::{Addresses, NetworkConfig, Subnet};
pub use crate::host::network::AGENT_PORT;
use crate::host::{command, process};
pub use crate::state::disk::DiskSpeed;
use crate::state::layout::{Folder, Record, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::MemoryManifest;
use crate::state::{agent_binary, disk, disk_copy, trash};
use crate::{
    Boot, Capabilities, Change, Effect, Endpoint, EngineError, EngineResult, Leftovers, MachineSpec,
    Observation,
};
use hotdesk_base::ids::ComputerId;

/// The engine `container`. Cheap to clone. Several may share a state folder while one adopts the machines of
/// another; one at a time works on a machine.
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
    /// Opens a state folder, making it when missing, and cleans up after a killed controller: interrupted
    /// destroys, frozen disks, unfinished files. `list` and `observe` find the machines that run.
    ///
    /// # Errors
    /// `Failed`, naming the path, when the state folder, the image or the agent is missing or cannot be used.
    pub fn open(mut config: ContainerConfig) -> EngineResult<Self> {
        for path in [&mut config.image, &mut config.agent_binary] {
            let found = std::fs::canonicalize(&*path);
            *path = found.map_err(command::host_error("find the image and the agent", path))?;
        }
        let rootfs = config.image.join("rootfs");
        if !rootfs.is_dir() {
            return Err(EngineError::failed(
                "find the guest image",
                format!(
                    "{} is not a folder; build the image, or set the engine's image to its folder",
                    rootfs.display()
                ),
            ));
        }
        let state = Self::swept_state(&config)?;
        let agent = agent_binary::install(&config.agent_binary, &state)?;
        let this = Self::over(config, state, agent);
        recovery::recover_interrupted(&this)?;
        Ok(this)
    }

    /// [`Self::open`] for the removal of machines only. It needs neither the image nor the agent, which may
    /// be gone, nor space on a full disk for a copy of the agent.
    ///
    /// # Errors
    /// `Failed` when the state folder cannot be used.
    pub fn open_to_remove(config: ContainerConfig) -> EngineResult<Self> {
        let state = Self::swept_state(&config)?;
        let agent = config.agent_binary.clone();
        Ok(Self::over(config, state, agent))
    }

    /// [`Self::open_to_remove`] without changes in the state folder.
    ///
    /// # Errors
    /// `Failed` when the state folder cannot be used.
    pub fn open_read_only(config: ContainerConfig) -> EngineResult<Self> {
        let state = StateDir::open(&config.state_dir)?;
        let agent = config.agent_binary.clone();
        Ok(Self::over(config, state, agent))
    }

    /// The search for leftovers in its state folder and on its host.
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

    /// The runtime's state of a machine in this boot of the host; `None` when nothing of it can run.
    async fn state_of(&self, id: ComputerId) -> EngineResult<Option<ContainerState>> {
        self.blocking(move |engine| engine.inner.state_of(id)).await
    }
}

impl Inner {
    fn state_of(&self, id: ComputerId) -> EngineResult<Option<ContainerState>> {
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
        // Some runtimes report a process as running until its parent has reaped it, which may happen after they looked.
        let failed = |error| EngineError::failed("look at the guest's first process", error);
        let has_exited = match process::open(state.pid).map_err(failed)? {
            Some(first) => process::wait_exit(&first, Instant::now()).map_err(failed)?,
            None => true,
        };
        if has_exited {
            state.status = "stopped".to_owned();
        }
        Ok(Some(state))
    }

    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation> {
        // A guest is paused while its memory is saved, and continues if that fails.
        let lives = |state: &ContainerState| ["running", "paused"].contains(&state.status.as_str());
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
        lock: &MachineLock,
    ) -> EngineResult<Endpoint> {
        let (config, runtime) = (&self.config, &self.runtime);
        let agent = &match runtime.kind() {
            RuntimeKind::Shared => self.agent.clone(),
            RuntimeKind::Gvisor => gvisor::pin_agent(folder, &self.agent)?,
        };
        boot::Starter { config, runtime, agent, wanted_slot: None, lock }.start(folder, spec, boot)
    }
}

impl GuestDriver for ContainerEngine {
    const NAME: &'static str = "container";

    fn abilities(&self) -> Capabilities {
        let own_kernel = self.inner.runtime.kind() == RuntimeKind::Gvisor;
        Capabilities {
            suspend: own_kernel,
            live_cpu: true,
            live_ram: !own_kernel,
            live_disk: !own_kernel && disk::grows_live(),
            // gVisor caches no file content: it writes through the host's descriptors.
            copy_while_running: true,
            memory_snapshot: own_kernel,
            evict: own_kernel,
            ..Capabilities::default()
        }
    }

    fn state(&self) -> &StateDir {
        &self.inner.state
    }

    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation> {
        self.inner.observe_guest(folder)
    }

    fn is_executing(&self, folder: &Folder) -> EngineResult<bool> {
        Ok(self.inner.state_of(folder.id)?.is_some_and(|state| state.status == "running"))
    }

    fn allow_agent_clients(&self, folder: &Folder) -> EngineResult<()> {
        match self.inner.runtime.kind() {
            RuntimeKind::Shared => Ok(()),
            RuntimeKind::Gvisor => self.inner.allow_agent_clients(folder),
        }
    }

    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        lock: &MachineLock,
    ) -> EngineResult<Endpoint> {
        self.inner.boot(folder, spec, boot, lock)
    }

    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        self.inner.apply(folder, before, change)
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        disk_copy::copy_disk(&source.disk(), fresh, to)
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

    fn recover_resume(&self, folder: &Folder) -> EngineResult<()> {
        self.inner.recover_resume(folder)
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
        self.undo_failed_restore(folder).await
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
