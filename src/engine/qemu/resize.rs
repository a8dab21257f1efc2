//! Live resize of a virtual machine: CPU hot-plug, virtio-mem, and growth of the disk under its file system.
//! Removed processors stay in the guest with less CPU time of the host.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::cgroup::limits;
use crate::host::command::host_error;
use crate::qemu::boot::BootRecord;
use crate::qemu::control_port;
use crate::qemu::hardware::{self, MEMORY_STEP_MIB};
use crate::qemu::monitor::Monitor;
use crate::state::layout::Folder;
use crate::{Effect, EngineError, EngineResult};

/// For a guest to use or release the hardware: a busy emulated one takes seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two checks of the guest.
const PAUSE: Duration = Duration::from_millis(50);
const MEMORY: &str = "/machine/peripheral/more0";

/// Grows the disk, and the file system in the guest.
pub(super) fn grow_disk(folder: &Folder, bytes: u64) -> EngineResult<Effect> {
    // The file may be larger than the record says, after a growth that the guest acknowledged too late.
    let disk = folder.disk();
    let length = fs::metadata(&disk).map_err(host_error("look at the disk", &disk))?.len();
    let bytes = bytes.max(length);
    Monitor::open(&folder.monitor())?.ask("block_resize", json!({ "node-name": "disk", "size": bytes }))?;
    control_port::ask(folder, "grow", TIMEOUT).map(|()| Effect::Live)
}

/// Changes the number of processors.
pub(super) fn set_cpus(folder: &Folder, boot: &BootRecord, cpu: f64) -> EngineResult<Effect> {
    let (wanted, at_boot) = (hardware::cpus(cpu), boot.hardware.cpus);
    if wanted > boot.hardware.max_cpus() {
        return Ok(Effect::AtNextStart);
    }
    let mut monitor = Monitor::open(&folder.monitor())?;
    let added = added_cpus(&mut monitor, at_boot)?;
    for core in (at_boot..wanted).filter(|core| !added.contains(core)) {
        let driver = boot.hardware.cpu_driver();
        let place = json!({ "driver": driver, "id": format!("cpu{core}"), "socket-id": 0, "core-id": core, "thread-id": 0 });
        monitor.ask("device_add", place)?;
    }
    // The guest discovers processors asynchronously, and brings them online on request.
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = control_port::ask(folder, &format!("cpus {wanted}"), TIMEOUT) {
        if Instant::now() >= deadline {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
    limits::set_cpu(folder.id, cpu).map(|()| Effect::Live)
}

/// Changes the memory size.
pub(super) fn set_memory(folder: &Folder, boot: &BootRecord, bytes: u64) -> EngineResult<Effect> {
    const STEP: &str = "change the guest's memory";
    let more = (bytes >> 20).checked_sub(boot.hardware.memory_mib).map(|more| more - more % MEMORY_STEP_MIB);
    let Some(more) = more.filter(|more| *more <= boot.hardware.max_added_mib()) else {
        return Ok(Effect::AtNextStart);
    };
    let set_limit = |bytes| limits::set_memory(folder.id, hardware::host_memory(bytes));
    let mut monitor = Monitor::open(&folder.monitor())?;
    // QEMU has the true size; an interrupted change may have left any.
    let has = (boot.hardware.memory_mib + added_mib(&mut monitor)?) << 20;
    set_limit(bytes.max(has))?;
    let was = request(&mut monitor, more << 20)?;
    let deadline = Instant::now() + TIMEOUT;
    while property(&mut monitor, "size")? != more << 20 {
        if Instant::now() >= deadline {
            request(&mut monitor, was)?;
            set_limit(has)?;
            return Err(EngineError::failed(
                STEP,
                "the guest does not release the memory, or does not take it",
            ));
        }
        std::thread::sleep(PAUSE);
    }
    if let Err(error) = set_limit(bytes) {
        tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not lower a machine's memory limit on the host");
    }
    Ok(Effect::Live)
}

/// The memory in MiB that was added to that of the boot, or that the guest may take at any moment.
pub(super) fn added_mib(monitor: &mut Monitor) -> EngineResult<u64> {
    Ok(property(monitor, "size")?.max(property(monitor, "requested-size")?) >> 20)
}

/// Numbers of the processors that were added to those of the boot, ascending.
pub(super) fn added_cpus(monitor: &mut Monitor, at_boot: u32) -> EngineResult<Vec<u32>> {
    let all = monitor.ask("query-hotpluggable-cpus", json!({}))?;
    let present = all.as_array().into_iter().flatten().filter(|cpu| cpu.get("qom-path").is_some());
    let cores = present.filter_map(|cpu| cpu.get("props")?.get("core-id")?.as_u64());
    let mut added: Vec<u32> =
        cores.filter_map(|core| u32::try_from(core).ok()).filter(|core| *core >= at_boot).collect();
    added.sort_unstable();
    Ok(added)
}

/// Requests that the guest has so many bytes beyond its boot memory. Returns the earlier request.
fn request(monitor: &mut Monitor, bytes: u64) -> EngineResult<u64> {
    let before = property(monitor, "requested-size")?;
    monitor.ask("qom-set", json!({ "path": MEMORY, "property": "requested-size", "value": bytes }))?;
    Ok(before)
}

fn property(monitor: &mut Monitor, name: &str) -> EngineResult<u64> {
    let value = monitor.ask("qom-get", json!({ "path": MEMORY, "property": name }))?;
    Value::as_u64(&value).ok_or_else(|| EngineError::failed("look at the guest's memory", value))
}
