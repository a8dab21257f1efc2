//! How does a virtual machine start? What it is told and bounded by first, its QEMU last; the record of the boot lies in its folder
//! before anything runs.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::config::QemuConfig;
use super::hardware::{self, Accelerator, Hardware, Start};
use super::monitor::Monitor;
use super::{images, line, link, seed};
use crate::addresses::host_ids;
use crate::cgroup::{self, Bounds};
use crate::command::{host_error, judge, run_patiently, tool};
use crate::layout::{Folder, private_folder, remove_if_there, write_durably};
use crate::lock::MachineLock;
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec};
use crate::{container, disk, network, process, slots, staged};
use hotdesk_base::ids::ComputerId;

/// QEMU opens its files and makes its devices; nothing in it waits for the guest.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at what runs.
const PAUSE: Duration = Duration::from_millis(2);
/// Enters the machine's groups, then becomes QEMU: nothing of it ever runs outside of them.
const ENTER: &str = "while [ \"$1\" != -- ]; do echo $$ >\"$1\" || exit 1; shift; done; shift; exec \"$@\"";

/// What a later controller needs to know of a boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) generation: u64,
    /// The host's boot: a record of an earlier one tells of nothing that runs.
    pub(super) host_boot: String,
    /// Where the agent answers.
    pub(super) agent: SocketAddr,
    /// Whether it reaches more than its host's agent client.
    pub(super) networked: bool,
    pub(super) hardware: Hardware,
    /// The image's disk.
    pub(super) image: PathBuf,
}

impl Record {
    /// The record of a machine's boot, unless the host has booted since.
    pub(super) fn read(folder: &Folder) -> EngineResult<Option<Self>> {
        const STEP: &str = "read the record of the boot";
        let path = folder.boot_config();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(host_error(STEP, &path)(error)),
        };
        // One that another engine wrote tells of nothing of ours.
        let Ok(record) = serde_json::from_slice::<Self>(&text) else { return Ok(None) };
        let now = process::boot_id().map_err(host_error(STEP, &path))?;
        Ok((record.host_boot == now).then_some(record))
    }

    pub(super) fn write(&self, folder: &Folder) -> EngineResult<()> {
        const STEP: &str = "write the record of the boot";
        let path = folder.boot_config();
        let text = serde_json::to_vec_pretty(self).map_err(|error| EngineError::failed(STEP, error))?;
        private_folder(&folder.bundle())
            .and_then(|()| write_durably(&path, &text))
            .map_err(host_error(STEP, &path))
    }
}

/// What a start works with.
#[derive(Debug)]
pub(super) struct Starter<'a> {
    pub(super) config: &'a QemuConfig,
    pub(super) accelerator: Accelerator,
    /// The agent's disk.
    pub(super) agent: &'a Path,
    pub(super) held: &'a MachineLock,
}

impl Starter<'_> {
    /// Boots a machine of which nothing runs and nothing is left. On error something may be left. Blocks.
    pub(super) fn start(&self, folder: &Folder, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        disk::grow(&folder.disk(), spec.disk_bytes, self.held)?;
        let kept = folder.agent();
        // Memory that is saved refers to it, whatever the controller becomes.
        remove_if_there(&kept)
            .and_then(|()| fs::hard_link(self.agent, &kept))
            .map_err(host_error("keep the machine's agent", &kept))?;
        let hardware = Hardware::of(spec, self.accelerator);
        let image = images::of_image(&self.config.image)?;
        let record = self.launch(folder, spec, boot, hardware, image, None)?;
        let state = Monitor::open(&folder.monitor())?.ask("query-status", json!({}))?;
        if state.get("running") != Some(&Value::Bool(true)) {
            return Err(EngineError::failed("start the machine", state));
        }
        Ok(Endpoint::Tcp(record.agent))
    }

    /// Everything up to a QEMU that runs: the guest too, or, with the slot that it had, what waits for its saved memory. Blocks.
    pub(super) fn launch(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        hardware: Hardware,
        image: PathBuf,
        continues: Option<Option<u16>>,
    ) -> EngineResult<Record> {
        const STEP: &str = "start QEMU";
        disk::check_reserve(&folder.path)?;
        let network = &self.config.network;
        let slot = slots::claim(folder, network.slots(), continues.flatten())?;
        let agent = network::agent(network, slot);
        let host_boot = process::boot_id().map_err(|error| EngineError::failed(STEP, error))?;
        let (generation, networked) = (boot.generation, network.enabled);
        let record = Record { generation, host_boot, agent, networked, hardware, image };
        record.write(folder)?;
        self.write_seed(folder, spec, boot)?;
        line::make(folder)?;
        remove_if_there(&folder.monitor()).map_err(host_error(STEP, &folder.path))?;
        let groups = cgroup::make(spec.id, bounds(spec, &record.hardware))?;
        let empty = empty_folder()?;
        let start = Start {
            id: spec.id,
            hardware: &record.hardware,
            kernel: &self.config.kernel,
            image: &record.image,
            agent: &folder.agent(),
            seed: &folder.seed(),
            disk: &folder.disk(),
            monitor: &folder.monitor(),
            line: &folder.line(),
            speed: self.config.disk_speed,
            empty: &empty,
            user: host_ids(self.config.uid_base, slot),
            continues: continues.is_some(),
        };
        let mut qemu = tool("sh");
        qemu.args(["-c", ENTER, "sh"]).args(groups).arg("--").arg(&self.config.program);
        qemu.args(hardware::arguments(&start));
        // Should this controller die, the next one waits until QEMU is up or is not; it lets go of this when it is.
        qemu.stdin(self.held.share().map_err(host_error(STEP, &folder.path))?);
        link::with(network, slot, spec.bandwidth_mbps, || {
            let (status, _, complaint) = run_patiently(STEP, &mut qemu, None, TIMEOUT)?;
            judge(STEP, status, &complaint)
        })?;
        await_one_process(spec.id)?;
        Ok(record)
    }

    fn write_seed(&self, folder: &Folder, spec: &MachineSpec, boot: &Boot) -> EngineResult<()> {
        let resolvers = network::resolvers(&self.config.network)?;
        let mut files = staged::files(spec, boot, &network::resolv_conf(&resolvers));
        let arguments = self.config.init_args.clone();
        let arguments = arguments.unwrap_or_else(|| container::init_args(&boot.resolution.to_string(), true));
        files.extend(seed::own_files(&arguments, link::GUEST, link::GATEWAY)?);
        seed::write(&folder.seed(), &files)
    }
}

/// Waits until QEMU is alone in its groups. Going to the background it leaves processes behind (`-daemonize` forks twice), of which
/// one may outlive its word that it is up; who looks at the groups would take that one for the machine, and its end for the machine's.
fn await_one_process(id: ComputerId) -> EngineResult<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let count = cgroup::processes(id)?.len();
        if count <= 1 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let detail = format!("{count} processes stay where there is to be one");
            return Err(EngineError::failed("wait for QEMU to be alone", detail));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a machine may take of its host. A guest that goes on has the memory that it had, though it is to have another size by now.
fn bounds(spec: &MachineSpec, hardware: &Hardware) -> Bounds {
    let memory_bytes = hardware::host_memory(hardware.memory_bytes().unwrap_or(spec.memory_bytes));
    Bounds { cpu: spec.cpu, memory_bytes, processes: hardware::MOST_PROCESSES }
}

/// Where QEMUs lock themselves in: nothing is there, and nobody of them may write.
fn empty_folder() -> EngineResult<PathBuf> {
    let failed = |error: io::Error| EngineError::failed("make an empty folder", error);
    let path = slots::host_dir().map_err(failed)?.join("empty");
    fs::create_dir_all(&path).map_err(failed)?;
    Ok(path)
}
