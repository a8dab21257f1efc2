//! How does a virtual machine's hardware change while it runs? Processors are plugged in, memory comes by virtio-mem, the disk grows
//! under its file system; processors that are taken away stay in the guest and get less of the host's time.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::boot::Record as BootRecord;
use super::hardware::{self, MEMORY_STEP_MIB};
use super::monitor::Monitor;
use super::{Inner, line};
use crate::command::host_error;
use crate::layout::{Folder, Record};
use crate::{Change, Effect, EngineError, EngineResult, bandwidth, quota, slots};

/// How long a guest may take to use, or to give back, what has changed: a busy emulated one takes seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at what a guest has done.
const PAUSE: Duration = Duration::from_millis(50);
const MEMORY: &str = "/machine/peripheral/more0";

impl Inner {
    /// Changes a machine that runs. On error it is as before.
    pub(super) fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        let Some((boot, pid)) = self.running(folder)? else { return Err(EngineError::Absent) };
        match change {
            Change::Cpu(cpu) => set_cpus(folder, &boot, cpu),
            Change::Memory(bytes) => set_memory(folder, &boot, bytes),
            Change::Disk(bytes) => {
                // It may have grown farther than its record says: a guest that took too long to say so uses all of it.
                let disk = folder.disk();
                let length = fs::metadata(&disk).map_err(host_error("look at the disk", &disk))?.len();
                let bytes = bytes.max(length);
                Monitor::open(&folder.monitor())?
                    .ask("block_resize", json!({ "node-name": "disk", "size": bytes }))?;
                line::ask(folder, "grow", TIMEOUT).map(|()| Effect::Live)
            }
            Change::Bandwidth(mbps) => {
                let Some(slot) = slots::held(folder)? else { return Ok(Effect::Live) };
                bandwidth::limit(slot, pid, mbps).inspect_err(|_| {
                    if let Err(error) = bandwidth::limit(slot, pid, before.bandwidth_mbps) {
                        tracing::warn!(computer = %folder.id, %error, "one way of a guest's network has another bound");
                    }
                })?;
                Ok(Effect::Live)
            }
        }
    }
}

fn set_cpus(folder: &Folder, boot: &BootRecord, cpu: f64) -> EngineResult<Effect> {
    let (wanted, at_boot) = (hardware::cpus(cpu), boot.hardware.cpus);
    if wanted > boot.hardware.most_cpus() {
        return Ok(Effect::AtNextStart);
    }
    let mut monitor = Monitor::open(&folder.monitor())?;
    let added = added_cpus(&mut monitor, at_boot)?;
    for core in (at_boot..wanted).filter(|core| !added.contains(core)) {
        let driver = boot.hardware.cpu_driver();
        let place = json!({ "driver": driver, "id": format!("cpu{core}"), "socket-id": 0, "core-id": core, "thread-id": 0 });
        monitor.ask("device_add", place)?;
    }
    // The guest notices in its own time, and uses what it has noticed when it is told to.
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = line::ask(folder, &format!("cpus {wanted}"), TIMEOUT) {
        if Instant::now() >= deadline {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
    quota::set_cpu(folder.id, cpu).map(|()| Effect::Live)
}

fn set_memory(folder: &Folder, boot: &BootRecord, bytes: u64) -> EngineResult<Effect> {
    const STEP: &str = "change the guest's memory";
    let more = (bytes >> 20).checked_sub(boot.hardware.memory_mib).map(|more| more - more % MEMORY_STEP_MIB);
    let Some(more) = more.filter(|more| *more <= boot.hardware.most_more_mib()) else {
        return Ok(Effect::AtNextStart);
    };
    let most = |bytes| quota::set_memory(folder.id, hardware::host_memory(bytes));
    let mut monitor = Monitor::open(&folder.monitor())?;
    // Asked of QEMU and not of the record: a change that was cut short may have come to any point.
    let has = (boot.hardware.memory_mib + added_mib(&mut monitor)?) << 20;
    most(bytes.max(has))?;
    let was = request(&mut monitor, more << 20)?;
    let deadline = Instant::now() + TIMEOUT;
    while property(&mut monitor, "size")? != more << 20 {
        if Instant::now() >= deadline {
            request(&mut monitor, was)?;
            most(has)?;
            return Err(EngineError::failed(STEP, "the guest does not give it back, or does not take it"));
        }
        std::thread::sleep(PAUSE);
    }
    if let Err(error) = most(bytes) {
        tracing::warn!(computer = %folder.id, %error, "a machine may take more of its host than its size says");
    }
    Ok(Effect::Live)
}

/// The memory that a guest has been given beyond that of its boot, or may take at any moment.
pub(super) fn added_mib(monitor: &mut Monitor) -> EngineResult<u64> {
    Ok(property(monitor, "size")?.max(property(monitor, "requested-size")?) >> 20)
}

/// The processors that were added to those of the boot.
pub(super) fn added_cpus(monitor: &mut Monitor, at_boot: u32) -> EngineResult<Vec<u32>> {
    let all = monitor.ask("query-hotpluggable-cpus", json!({}))?;
    let there = all.as_array().into_iter().flatten().filter(|cpu| cpu.get("qom-path").is_some());
    let cores = there.filter_map(|cpu| cpu.get("props")?.get("core-id")?.as_u64());
    let mut added: Vec<u32> =
        cores.filter_map(|core| u32::try_from(core).ok()).filter(|core| *core >= at_boot).collect();
    added.sort_unstable();
    Ok(added)
}

/// Asks the guest for so much memory beyond that of its boot; what was asked for before.
fn request(monitor: &mut Monitor, bytes: u64) -> EngineResult<u64> {
    let before = property(monitor, "requested-size")?;
    monitor.ask("qom-set", json!({ "path": MEMORY, "property": "requested-size", "value": bytes }))?;
    Ok(before)
}

fn property(monitor: &mut Monitor, name: &str) -> EngineResult<u64> {
    let value = monitor.ask("qom-get", json!({ "path": MEMORY, "property": name }))?;
    Value::as_u64(&value).ok_or_else(|| EngineError::failed("look at the guest's memory", value))
}
