//! How does a virtual machine's hardware change while it runs? Processors are plugged in, memory comes by virtio-mem, the disk grows
//! under its file system; processors that are taken away stay in the guest and get less of the host's time.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::boot::Record as BootRecord;
use super::hardware::{self, MEMORY_STEP_MIB};
use super::monitor::Monitor;
use super::suspend::added_cpus;
use super::{Inner, QemuEngine, line};
use crate::base::ids::ComputerId;
use crate::engine::command::host_error;
use crate::engine::layout::{Folder, Record};
use crate::engine::{
    Change, Effect, EngineError, EngineResult, Observation, bandwidth, disk, lock, quota, slots,
};

/// How long a guest may take to use, or to give back, what has changed: a busy emulated one takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at what a guest has done.
const PAUSE: Duration = Duration::from_millis(50);
const MEMORY: &str = "/machine/peripheral/more0";

impl QemuEngine {
    /// [`crate::engine::Engine::resize`].
    pub(super) async fn change(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        self.blocking(move |inner| {
            let _held = held;
            let runs = match inner.observe(id)? {
                Observation::Absent => return Err(EngineError::Absent),
                Observation::Running { .. } => inner.running(&folder)?,
                Observation::Stopped | Observation::Suspended { .. } => None,
            };
            let before = folder.read_record()?;
            let after = before.changed(change)?;
            if let Change::Disk(_) = change {
                disk::check_reserve(&folder.path)?;
            }
            folder.write_record(&after)?;
            let Some((boot, pid)) = runs else { return Ok(Effect::AtNextStart) };
            inner.apply(&folder, &before, &boot, pid, change).inspect_err(|_| {
                if let Err(error) = folder.write_record(&before) {
                    tracing::warn!(computer = %id, %error, "a machine's record says what did not come true");
                }
            })
        })
        .await
    }
}

impl Inner {
    /// Changes a machine that runs. On error it is as before.
    fn apply(
        &self,
        folder: &Folder,
        before: &Record,
        boot: &BootRecord,
        pid: u32,
        change: Change,
    ) -> EngineResult<Effect> {
        match change {
            Change::Cpu(cpu) => set_cpus(folder, boot, cpu),
            Change::Memory(bytes) => set_memory(folder, before, boot, bytes),
            Change::Disk(bytes) => {
                // It may have grown farther than its record says: a guest that took too long to say so uses all of it.
                let disk = folder.disk();
                let length = fs::metadata(&disk).map_err(host_error("look at the disk", &disk))?.len();
                let bytes = bytes.max(length);
                Monitor::open(&folder.monitor())?
                    .ask("block_resize", json!({ "node-name": "disk", "size": bytes }))?;
                line::ask(folder, "grow", PATIENCE).map(|()| Effect::Live)
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
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = line::ask(folder, &format!("cpus {wanted}"), PATIENCE) {
        if Instant::now() >= deadline {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
    quota::set_cpu(folder.id, cpu).map(|()| Effect::Live)
}

fn set_memory(folder: &Folder, before: &Record, boot: &BootRecord, bytes: u64) -> EngineResult<Effect> {
    const STEP: &str = "change the guest's memory";
    let more = (bytes >> 20).checked_sub(boot.hardware.memory_mib).map(|more| more - more % MEMORY_STEP_MIB);
    let Some(more) = more.filter(|more| *more <= boot.hardware.most_more_mib()) else {
        return Ok(Effect::AtNextStart);
    };
    let most = |bytes| quota::set_memory(folder.id, hardware::host_memory(bytes));
    if bytes > before.memory_bytes {
        most(bytes)?;
    }
    let mut monitor = Monitor::open(&folder.monitor())?;
    let was = request(&mut monitor, more << 20)?;
    let deadline = Instant::now() + PATIENCE;
    while property(&mut monitor, "size")? != more << 20 {
        if Instant::now() >= deadline {
            request(&mut monitor, was)?;
            most(before.memory_bytes)?;
            return Err(EngineError::failed(STEP, "the guest does not give it back, or does not take it"));
        }
        std::thread::sleep(PAUSE);
    }
    if bytes < before.memory_bytes
        && let Err(error) = most(bytes)
    {
        tracing::warn!(computer = %folder.id, %error, "a machine may take more of its host than its size says");
    }
    Ok(Effect::Live)
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
