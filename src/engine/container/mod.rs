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
pub(crate) mod gvisor;
mod halt;
mod idmap;
mod lxcfs;
pub(crate) mod oci;
pub(crate) mod probe;
pub(crate) mod runsc;
pub(crate) mod runtime;
mod seccomp;
mod stage;
mod throttle;
mod upkeep;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::container::boot::ContainerStarter;
use crate::container::runtime::{ContainerState, Runtime, RuntimeKind};
use crate::container::upkeep::UpkeepState;
use crate::driver::{BootDependencies, GuestDriver, HostContext, MachineBoot, set_bandwidth};
use crate::host::cgroup::{self, cpuset, limits};
use crate::host::files::canonicalize;
use crate::host::{process, slots};
use crate::state::disk::{self, copy};
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::state::{agent_binary, raw_disk};
use crate::whole_cpus;
use crate::{
    Change, Effect, Endpoint, EngineError, EngineResult, HostSettings, Observation, Offer, OpenMode,
};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

/// Settings that only the container engine has.
#[derive(Clone, Debug)]
pub struct ContainerSettings {
    /// The OCI runtime, `runc` or `runsc` (gVisor), which decides the isolation: a name in the system's usual folders, or a
    /// path.
    pub runtime: String,
    /// The isolation that the runtime must provide; `None` takes what it provides.
    pub isolation: Option<Isolation>,
}

/// The engine `container`. Cheap to clone. Several may share a state folder while one adopts the machines of
/// another; one at a time works on a machine.
#[derive(Clone, Debug)]
pub(crate) struct ContainerEngine {
    host: Arc<HostContext>,
    runtime: Arc<Runtime>,
    /// The executable that guests run as their agent.
    agent: Arc<Path>,
    upkeep: Arc<Mutex<UpkeepState>>,
}

impl ContainerEngine {
    /// Finds what guests boot from, and checks that the runtime provides the isolation.
    ///
    /// # Errors
    /// `Failed`, naming the path that is missing or the runtime.
    pub(crate) fn prepare(host: &mut HostSettings, settings: &ContainerSettings) -> EngineResult<()> {
        if let Some(isolation) = settings.isolation {
            let provided = Runtime::new(&settings.runtime, PathBuf::new());
            let version = provided.version()?;
            if provided.isolation() != isolation {
                let (runtime, isolation) = (&settings.runtime, isolation.name());
                let detail = format!(
                    "{runtime} ({version}) does not provide isolation {isolation}; set it under [engines]"
                );
                return Err(EngineError::failed("find the OCI runtime", detail));
            }
        }
        canonicalize("find the image and the agent", [&mut host.image, &mut host.agent_binary])?;
        let rootfs = host.image.join("rootfs");
        if rootfs.is_dir() {
            return Ok(());
        }
        Err(EngineError::failed(
            "find the guest image",
            format!(
                "{} is not a folder; build the image (`hotdesk image build`, or `make image` in the source tree), or \
                 set the engine's image to its folder",
                rootfs.display()
            ),
        ))
    }

    /// What the engine offers with a runtime.
    pub(crate) fn offer(settings: &ContainerSettings) -> Offer {
        Runtime::of(settings, PathBuf::new()).offer()
    }

    /// Opens the engine on a host, after [`Self::prepare`] when it runs guests.
    pub(crate) fn open(
        host: Arc<HostContext>,
        settings: &ContainerSettings,
        mode: OpenMode,
    ) -> EngineResult<Self> {
        let binary = &host.settings.agent_binary;
        let agent =
            if mode == OpenMode::Run { agent_binary::install(binary, &host.state)? } else { binary.clone() };
        let runtime = Runtime::of(settings, host.state.runtime());
        Ok(Self { host, runtime: Arc::new(runtime), agent: agent.into(), upkeep: Arc::default() })
    }

    fn upkeep(&self) -> MutexGuard<'_, UpkeepState> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the vCPUs of a running machine. On error it has `before`.
    fn set_cpu(&self, id: ComputerId, before: f64, vcpus: f64) -> EngineResult<()> {
        if self.runtime.kind() == RuntimeKind::Gvisor {
            limits::set_cpu(id, vcpus)?;
            if whole_cpus(vcpus) != whole_cpus(before) {
                self.set_guest_cpus(id, whole_cpus(vcpus));
            }
            return Ok(());
        }
        cpuset::assign(id, vcpus)?;
        limits::set_cpu(id, vcpus).inspect_err(|_| {
            if let Err(error) = cpuset::assign(id, before) {
                tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not restore the CPUs of a machine after a failed change");
            }
        })
    }

    /// The runtime's state of a machine in this boot of the host; `None` when nothing of it can run.
    fn state_of(&self, id: ComputerId) -> EngineResult<Option<ContainerState>> {
        let folder = self.host.state.folder(id);
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
        // Some runtimes report a process as running until its parent has reaped it, which may happen after they looked. A
        // process that is ending leaves its control group before its pidfd says so (version 1).
        let failed = |error| EngineError::failed("look at the guest's first process", error);
        let has_exited = match process::open(state.pid).map_err(failed)? {
            Some(first) => {
                process::wait_exit(&first, Instant::now()).map_err(failed)?
                    || !cgroup::contains(id, state.pid)
            }
            None => true,
        };
        if has_exited {
            state.status = "stopped".to_owned();
        }
        Ok(Some(state))
    }
}

impl GuestDriver for ContainerEngine {
    fn host(&self) -> &HostContext {
        &self.host
    }

    fn boot_dependencies(&self, _isolation: Isolation) -> EngineResult<BootDependencies> {
        let (program, agent) = (self.runtime.version()?, self.agent.to_path_buf());
        Ok(BootDependencies { program, agent, files: Vec::new() })
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
                .map_or_else(|_| Endpoint::Unix(self.host.agent_socket(folder)), Endpoint::Tcp),
            address: label(oci::ADDRESS).parse::<IpAddr>().ok(),
        })
    }

    fn is_executing(&self, folder: &Folder) -> EngineResult<bool> {
        Ok(self.state_of(folder.id)?.is_some_and(|state| state.status == "running"))
    }

    fn allow_agent_clients(&self, folder: &Folder) -> EngineResult<()> {
        match self.runtime.kind() {
            RuntimeKind::Shared => Ok(()),
            RuntimeKind::Gvisor => self.unblock_agent(folder),
        }
    }

    fn boot(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        // First, because the agent may be what says so.
        raw_disk::check_mountable(machine.folder)?;
        let agent = &match self.runtime.kind() {
            RuntimeKind::Shared => self.agent.to_path_buf(),
            RuntimeKind::Gvisor => gvisor::pin_agent(machine.folder, &self.agent)?,
        };
        let image = &self.host.settings.image;
        self.upkeep().forget(machine.folder.id);
        ContainerStarter { host: &self.host, runtime: &self.runtime, image, agent, wanted_slot: None }
            .start(machine)
    }

    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        match change {
            // gVisor's kernel reads its memory size at boot and caches its view of the disk.
            Change::Memory(_) | Change::Disk(_) if self.runtime.kind() == RuntimeKind::Gvisor => {
                Ok(Effect::AtNextStart)
            }
            Change::Cpu(cpu) => self.set_cpu(folder.id, before.cpu, cpu).map(|()| Effect::Live),
            Change::Memory(bytes) => limits::set_memory(folder.id, bytes).map(|()| Effect::Live),
            Change::Disk(bytes) => disk::grow_live(&folder.disk(), bytes),
            Change::Bandwidth(mbps) => {
                let pid = self.state_of(folder.id)?.map(|state| state.pid).filter(|pid| *pid != 0);
                let networked = self.host.settings.network.enabled;
                let slot = slots::of_machine(&folder.path)?.filter(|_| networked);
                // A machine without a network needs no limit.
                let (Some(pid), Some(slot)) = (pid, slot) else { return Ok(Effect::Live) };
                set_bandwidth(folder.id, (slot, pid), before.bandwidth_mbps, mbps)
            }
        }
    }

    fn unwritten_bytes(&self, folder: &Folder) -> u64 {
        limits::unwritten(folder.id)
    }

    fn maintain(&self) -> EngineResult<()> {
        self.maintain_machines()
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        copy::copy_disk(&source.disk(), fresh, to)
    }

    fn copy_written(&self, folder: &Folder, to: &Path, lock: &MachineLock) -> EngineResult<()> {
        stage::layer::copy_written(folder, to, lock)
    }
}
