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
mod control_port;
mod halt;
mod hardware;
mod images;
mod link;
mod monitor;
pub(crate) mod probe;
mod resize;
mod seed;
mod settings;
mod suspend;
mod transfer;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::{BootDependencies, GuestDriver, HostContext, MachineBoot, set_bandwidth};
use crate::host::files::canonicalize;
use crate::host::{cgroup, freeze, process, slots};
use crate::qemu::boot::{BootRecord, QemuStarter};
use crate::qemu::monitor::Monitor;
pub use crate::qemu::settings::QemuSettings;
use crate::state::disk::copy;
use crate::state::layout::{Folder, Record};
use crate::{
    Capabilities, Change, Effect, Endpoint, EngineError, EngineResult, HostSettings, Observation, Offer,
    OpenMode,
};
use hotdesk_domain::computer::isolation::Isolation;

/// For a guest to write back its dirty data: a gigabyte on a slow disk.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(60);
/// For a guest to undo a freeze that failed. Short, because others wait for the machine's lock.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The engine `qemu`. Cheap to clone. Several may share a state folder while one adopts the machines of
/// another; one at a time works on a machine.
#[derive(Clone, Debug)]
pub(crate) struct QemuEngine {
    host: Arc<HostContext>,
    /// The disk with the agent of guests.
    agent: Arc<Path>,
    settings: Arc<QemuSettings>,
}

impl QemuEngine {
    /// Finds what guests boot from.
    ///
    /// # Errors
    /// `Failed`, naming the path that is missing.
    pub(crate) fn prepare(host: &mut HostSettings, settings: &mut QemuSettings) -> EngineResult<()> {
        canonicalize(
            "find the kernel, the image and the agent",
            [&mut host.image, &mut host.agent_binary, &mut settings.kernel],
        )?;
        let kernel = &settings.kernel;
        for path in [host.image.join("rootfs"), kernel.join("kernel"), kernel.join("initrd")] {
            if !path.exists() {
                let detail = format!("{} is not there", path.display());
                return Err(EngineError::failed("find the guests' image and kernel", detail));
            }
        }
        Ok(())
    }

    /// What the engine offers.
    pub(crate) fn offer() -> Offer {
        Offer {
            isolation: Isolation::Vm,
            engine: "qemu",
            capabilities: Capabilities { replicate: false, ..Capabilities::ALL },
        }
    }

    /// Opens the engine on a host, after [`Self::prepare`] when it runs guests.
    pub(crate) fn open(host: Arc<HostContext>, settings: QemuSettings, mode: OpenMode) -> EngineResult<Self> {
        let binary = &host.settings.agent_binary;
        let agent =
            if mode == OpenMode::Run { images::of_agent(binary, &host.state)? } else { binary.clone() };
        Ok(Self { host, agent: agent.into(), settings: Arc::new(settings) })
    }

    /// The boot record and the pid of a machine's QEMU; `None` when it does not run.
    fn running(&self, folder: &Folder) -> EngineResult<Option<(BootRecord, u32)>> {
        let Some(record) = BootRecord::read(folder)? else { return Ok(None) };
        for pid in cgroup::processes(folder.id)? {
            if process::runs(pid)
                .map_err(|error| EngineError::failed("look at the machine's process", error))?
            {
                return Ok(Some((record, pid)));
            }
        }
        Ok(None)
    }

    fn starter(&self) -> QemuStarter<'_> {
        let accelerator = accelerator::detect(&self.settings).accelerator;
        QemuStarter { host: &self.host, agent: &self.agent, settings: &self.settings, accelerator }
    }
}

impl GuestDriver for QemuEngine {
    fn host(&self) -> &HostContext {
        &self.host
    }

    fn boot_dependencies(&self, _isolation: Isolation) -> EngineResult<BootDependencies> {
        Ok(BootDependencies {
            program: self.settings.version()?,
            agent: self.agent.to_path_buf(),
            files: ["kernel", "initrd"].map(|name| self.settings.kernel.join(name)).into(),
        })
    }

    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation> {
        let Some((record, _)) = self.running(folder)? else { return Ok(Observation::Stopped) };
        Ok(Observation::Running {
            generation: record.generation,
            endpoint: Endpoint::Tcp(record.agent),
            address: record.networked.then(|| record.agent.ip()),
        })
    }

    fn is_executing(&self, folder: &Folder) -> EngineResult<bool> {
        let runs = self.running(folder)?.is_some();
        Ok(runs && !suspend::is_paused(&mut Monitor::open(&folder.monitor())?)?)
    }

    fn boot(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        self.starter().start(machine)
    }

    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        let Some((boot, pid)) = self.running(folder)? else { return Err(EngineError::Absent) };
        match change {
            Change::Cpu(cpu) => resize::set_cpus(folder, &boot, cpu),
            Change::Memory(bytes) => resize::set_memory(folder, &boot, bytes),
            Change::Disk(bytes) => resize::grow_disk(folder, bytes),
            Change::Bandwidth(mbps) => {
                let Some(slot) = slots::of_machine(&folder.path)? else { return Ok(Effect::Live) };
                set_bandwidth(folder.id, (slot, pid), before.bandwidth_mbps, mbps)
            }
        }
    }

    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()> {
        let runs = self.running(source)?.is_some();
        copy::copy_disk_during(&source.disk(), fresh, to, |copy| {
            if !runs {
                return copy(None);
            }
            if let Err(error) = control_port::ask(source, "freeze", FREEZE_TIMEOUT) {
                // The guest processes requests in order: a late freeze is followed by this thaw.
                if let Err(late) = control_port::ask(source, "thaw", SHORT_TIMEOUT) {
                    tracing::warn!(computer = %source.id, error = format_args!("{late:#}"), "could not thaw a guest after a failed freeze; it thaws by itself");
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
