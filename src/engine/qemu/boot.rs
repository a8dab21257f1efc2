//! Boot of a virtual machine: the boot record, the seed and the control groups first, QEMU last.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::driver::{HostContext, MachineBoot, start_proxy};
use crate::host::cgroup;
use crate::host::cgroup::create::{self, ResourceLimits};
use crate::host::command::{check_status, host_error, run_with_timeout, tool};
use crate::host::files::{private_folder, remove_if_there, write_for_this_boot};
use crate::host::{network, process, slots};
use crate::qemu::hardware::{self, Accelerator, Hardware, QemuLaunch};
use crate::qemu::monitor::Monitor;
use crate::qemu::settings::QemuSettings;
use crate::qemu::{control_port, images, link, seed};
use crate::state::disk::copy::link_or_copy;
use crate::state::layout::Folder;
use crate::state::{boot_files, disk, raw_disk};
use crate::{Endpoint, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::phase::PhaseTimer;

/// For QEMU to open its files and make its devices; it does not wait for the guest.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(2);
/// A word of `packaging/vm/init` that is in every initial RAM disk that mounts layers. The RAM disk is not
/// compressed.
const LAYERS: &[u8] = b"/mnt/layer";
/// Shell script that enters the machine's groups and then executes QEMU, so that QEMU never runs outside of
/// them. QEMU opens about 50 files; the host has one table of open files for all.
const ENTER: &str = "[ $(ulimit -n) -le 1024 ] || ulimit -n 1024 || exit 1; while [ \"$1\" != -- ]; do echo $$ >\"$1\" || exit 1; shift; done; shift; exec \"$@\"";

/// `bundle/config.json`: what a later controller needs of a boot. It means nothing once the host has
/// rebooted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BootRecord {
    pub(super) generation: u64,
    /// The host's boot id: after a reboot of the host nothing of this boot runs.
    pub(super) host_boot: String,
    /// The address of the agent.
    pub(super) agent: SocketAddr,
    /// Whether the guest has a network beyond the link to its host.
    pub(super) networked: bool,
    pub(super) hardware: Hardware,
    /// The image's disk.
    pub(super) image: PathBuf,
}

impl BootRecord {
    /// Reads the record of a machine's boot; `None` if the host has rebooted since.
    pub(super) fn read(folder: &Folder) -> EngineResult<Option<Self>> {
        const STEP: &str = "read the record of the boot";
        let path = folder.boot_config();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(host_error(STEP, &path)(error)),
        };
        // The container engine writes another format to this file.
        let Ok(record) = serde_json::from_slice::<Self>(&text) else { return Ok(None) };
        let now = process::boot_id().map_err(host_error(STEP, &path))?;
        Ok((record.host_boot == now).then_some(record))
    }

    pub(super) fn write(&self, folder: &Folder) -> EngineResult<()> {
        const STEP: &str = "write the record of the boot";
        let path = folder.boot_config();
        let text = serde_json::to_vec_pretty(self).map_err(|error| EngineError::failed(STEP, error))?;
        private_folder(&folder.bundle())
            .and_then(|()| write_for_this_boot(&path, &text))
            .map_err(host_error(STEP, &path))
    }
}

/// What a start needs besides the machine.
#[derive(Debug)]
pub(super) struct QemuStarter<'a> {
    pub(super) host: &'a HostContext,
    /// The disk with the agent.
    pub(super) agent: &'a Path,
    pub(super) settings: &'a QemuSettings,
    pub(super) accelerator: Accelerator,
}

impl QemuStarter<'_> {
    /// Boots a machine after a sweep. On error, parts of the boot may be left. Blocks.
    pub(super) fn start(&self, machine: &MachineBoot<'_>) -> EngineResult<Endpoint> {
        let MachineBoot { folder, spec, lock, .. } = *machine;
        disk::check_reserve(&folder.path)?;
        let host = &self.host.settings;
        let slot = slots::claim(&folder.path, host.network.slots(), None)?;
        disk::grow(&folder.disk(), spec.disk_bytes, host.host_ids(slot), lock)?;
        let agent = folder.agent();
        // Saved memory refers to this link after the controller was upgraded.
        link_or_copy(self.agent, &agent)?;
        let hardware = Hardware::of(spec, self.accelerator);
        let image = images::of_image(&self.host.settings.image)?;
        if !spec.layers.is_empty() {
            self.check_initrd()?;
        }
        for layer in &spec.layers {
            images::of_image(&self.host.state.layer(*layer))?;
        }
        let record = self.launch(machine, hardware, image, None)?;
        let state = Monitor::open(&folder.monitor())?.ask("query-status", json!({}))?;
        if state.get("running") != Some(&Value::Bool(true)) {
            return Err(EngineError::failed("start the machine", state));
        }
        Ok(Endpoint::Tcp(record.agent))
    }

    /// Starts QEMU. With `continues`, which has the slot that the machine had, the guest waits for its saved
    /// memory. Blocks.
    pub(super) fn launch(
        &self,
        machine: &MachineBoot<'_>,
        hardware: Hardware,
        image: PathBuf,
        continues: Option<Option<u16>>,
    ) -> EngineResult<BootRecord> {
        const STEP: &str = "start QEMU";
        let MachineBoot { folder, spec, boot, lock } = *machine;
        let host = &self.host.settings;
        let network = &host.network;
        let slot = slots::claim(&folder.path, network.slots(), continues.flatten())?;
        raw_disk::mark(folder)?;
        let agent = network::agent(network, slot);
        let host_boot = process::boot_id().map_err(|error| EngineError::failed(STEP, error))?;
        let (generation, networked) = (boot.generation, network.enabled);
        let record = BootRecord { generation, host_boot, agent, networked, hardware, image };
        record.write(folder)?;
        self.write_seed(machine)?;
        control_port::make(folder)?;
        remove_if_there(&folder.monitor()).map_err(host_error(STEP, &folder.path))?;
        let groups = create::make(spec.id, resource_limits(spec, &record.hardware))?;
        let empty = empty_folder()?;
        // Those that the machine had when its memory was saved: a machine keeps its layers.
        let layers: Vec<PathBuf> =
            spec.layers.iter().map(|layer| images::disk_of(&self.host.state.layer(*layer))).collect();
        let start = QemuLaunch {
            id: spec.id,
            hardware: &record.hardware,
            kernel: &self.settings.kernel,
            image: &record.image,
            agent: &folder.agent(),
            seed: &folder.seed(),
            disk: &folder.disk(),
            layers: &layers,
            monitor: &folder.monitor(),
            line: &folder.line(),
            speed: host.disk_speed,
            empty: &empty,
            user: host.host_ids(slot),
            continues: continues.is_some(),
        };
        let mut qemu = tool("sh");
        qemu.args(["-c", ENTER, "sh"]).args(groups).arg("--").arg(&self.settings.program);
        qemu.args(hardware::arguments(&start));
        // The process shares the lock until QEMU has started: if this controller dies, the next one waits for
        // that.
        qemu.stdin(lock.share().map_err(host_error(STEP, &folder.path))?);
        link::with_namespace(network, slot, spec, || {
            let _phase = PhaseTimer::begin(spec.id, "runtime start");
            let (status, _, complaint) = run_with_timeout(STEP, &mut qemu, None, TIMEOUT)?;
            check_status(STEP, status, &complaint)
        })?;
        await_one_process(spec.id)?;
        if let Some(policy) = &spec.egress {
            start_proxy(self.host, folder, slot, policy)?;
        }
        Ok(record)
    }

    /// Refuses an initial RAM disk of an earlier version, which would boot a machine without its layers.
    fn check_initrd(&self) -> EngineResult<()> {
        const STEP: &str = "give a virtual machine its layers";
        let initrd = self.settings.kernel.join("initrd");
        let content = fs::read(&initrd).map_err(host_error(STEP, &initrd))?;
        if content.windows(LAYERS.len()).any(|text| text == LAYERS) {
            return Ok(());
        }
        let detail = format!(
            "{} is of an earlier version and knows none: run `hotdesk image kernel` (packaging/vm/build in the source tree)",
            initrd.display()
        );
        Err(EngineError::failed(STEP, detail))
    }

    fn write_seed(&self, machine: &MachineBoot<'_>) -> EngineResult<()> {
        let MachineBoot { folder, spec, boot, .. } = *machine;
        let resolvers = network::resolvers(&self.host.settings.network)?;
        let mut files = boot_files::files(spec, boot, &network::resolv_conf(&resolvers));
        files.extend(seed::vm_files(&self.host.init_args(boot, true, None), link::GUEST, link::GATEWAY)?);
        seed::write(&folder.seed(), &files)
    }
}

/// Waits until QEMU is the only process in its groups. `-daemonize` forks twice, and an intermediate process
/// may outlive the report of success. A look at the groups could mistake it for the machine, and its end for
/// the machine's end.
fn await_one_process(id: ComputerId) -> EngineResult<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let count = cgroup::processes(id)?.len();
        if count <= 1 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let detail = format!("its control group has {count} processes instead of one");
            return Err(EngineError::failed("wait for QEMU's helper processes to end", detail));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The limits of a machine. A resumed guest has the memory that was saved, even if its size was changed
/// since.
fn resource_limits(spec: &MachineSpec, hardware: &Hardware) -> ResourceLimits {
    let memory_bytes = hardware::host_memory(hardware.memory_bytes().unwrap_or(spec.memory_bytes));
    ResourceLimits { cpu: spec.cpu, memory_bytes, processes: hardware::MAX_PROCESSES }
}

/// The chroot of QEMU processes: an empty folder that they cannot write to.
fn empty_folder() -> EngineResult<PathBuf> {
    let failed = |error: io::Error| EngineError::failed("make an empty folder", error);
    let path = slots::host_dir().map_err(failed)?.join("empty");
    fs::create_dir_all(&path).map_err(failed)?;
    Ok(path)
}
