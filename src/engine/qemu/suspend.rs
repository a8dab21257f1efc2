//! How is a virtual machine's memory saved and continued?
//!
//! ```text
//!   Running -- stop, transfer, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^   (an error: cont)                                                            |
//!      |---- identity <-- cont <-- memory.used <-- transfer <-- verify, launch ------|
//! ```
//! The guest stands still from before its memory is read until it is killed, so that memory and disk are of one moment. For a
//! fork, or a snapshot with memory, it goes on instead once its disk is copied; the folder `memory.new` says meanwhile that it
//! stands.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::boot::Record;
use super::hardware::{self, Accelerator, Hardware};
use super::monitor::Monitor;
use super::resize::{added_cpus, added_mib};
use super::{Inner, Machinery, QemuEngine, line, transfer};
use crate::command::{host_error, run, tool};
use crate::layout::{Folder, write_durably};
use crate::lock::MachineLock;
use crate::machinery::gone_on;
use crate::memory::{self, Manifest, Saved};
use crate::{
    Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation, copy, disk, lock, slots, staged,
    still, trash,
};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::ComputerId;

/// How long a guest may take to write back what it holds before it sleeps without: a gigabyte on a slow disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(20);
/// How long its first process may take to become another machine's, or to hear what time it is: it sleeps until it is asked.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a guest is told of the time is right when it was answered within this, half of the 0.5 s within which a clock is to be right.
const QUICK: Duration = Duration::from_millis(250);
/// How often it is told at most; a host that is too busy each time is so for long.
const MOST_CLOCKS: usize = 5;
/// What saved memory consists of, beside its manifest and the memory itself: the record of the boot.
const RECORD: &str = "machine.json";

impl QemuEngine {
    /// Lets a guest go on that a verb of a controller which died left standing.
    pub(super) async fn go_on_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        if !folder.fresh_memory().exists() && !folder.used_memory().exists() {
            return Ok(());
        }
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |engine| {
            let runs = Saved::find(&folder)?.is_none()
                && matches!(engine.seen(&folder)?, Observation::Running { .. });
            if runs { go_on(&folder, &mut Monitor::open(&folder.monitor())?) } else { Ok(()) }
        })
        .await
    }
}

impl Inner {
    /// Saves a guest's memory. On success it stands still, on error it goes on.
    pub(super) fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        disk::check_reserve(&folder.path)?;
        let mut monitor = Monitor::open(&folder.monitor())?;
        let fresh = folder.fresh_memory();
        let saved = hold(folder, &mut monitor).and_then(|()| {
            let manifest = self.write_state(folder, &mut monitor, &fresh)?;
            memory::seal(&fresh, generation, |parts| Manifest { parts, ..manifest })
        });
        if saved.is_ok() { saved } else { gone_on(folder, saved, go_on(folder, &mut monitor)) }
    }

    /// Saves a guest's memory to `memory` and copies its disk, both while it stands still. It goes on afterwards, whatever came
    /// of it. What remains is to seal the memory.
    pub(super) fn moment(
        &self,
        folder: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<Manifest> {
        let mut monitor = Monitor::open(&folder.monitor())?;
        let taken = hold(folder, &mut monitor).and_then(|()| {
            let manifest = self.write_state(folder, &mut monitor, memory)?;
            let deadline = Some(Instant::now() + still::LONGEST_STILL);
            copy::disk_during(&folder.disk(), fresh, to, |copy| copy(deadline)).map(|()| manifest)
        });
        gone_on(folder, taken, go_on(folder, &mut monitor))
    }

    /// Writes the memory of a guest that stands still, and what else it needs again.
    fn write_state(&self, folder: &Folder, monitor: &mut Monitor, to: &Path) -> EngineResult<Manifest> {
        const STEP: &str = "save the guest's memory";
        let Some((mut record, _)) = self.running(folder)? else { return Err(EngineError::Absent) };
        record.hardware.added_cpus = added_cpus(monitor, record.hardware.cpus)?;
        record.hardware.added_mib = Some(added_mib(monitor)?);
        transfer::write(to, monitor)?;
        let text = serde_json::to_vec(&record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&to.join(RECORD), &text).map_err(host_error(STEP, to))?;
        Ok(Manifest {
            host_boot: record.host_boot,
            runtime: self.version()?,
            image: record.image,
            hostname: None,
            slot: slots::held(folder)?,
            parts: Vec::new(),
        })
    }

    /// Lets a machine of which nothing runs go on from its saved memory. On error something may be left.
    pub(super) fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        const STEP: &str = "continue from saved memory";
        let Some(saved) = Saved::find(folder)? else { return Err(EngineError::failed(STEP, "it is gone")) };
        let manifest = saved.verify()?;
        let version = self.version()?;
        if version != manifest.runtime {
            let detail = format!("it was saved by {}, this is {version}", manifest.runtime);
            return Err(EngineError::failed(STEP, detail));
        }
        let text = fs::read(saved.path.join(RECORD)).map_err(host_error(STEP, &saved.path))?;
        let was: Record = serde_json::from_slice(&text)
            .map_err(|error| EngineError::Damaged(format!("{}: {RECORD}: {error}", saved.path.display())))?;
        let starter = self.starter(held);
        // Emulation is there on every host.
        if was.hardware.accelerator == Accelerator::Kvm && starter.accelerator != Accelerator::Kvm {
            let detail =
                format!("it was saved on {:?}, this is {:?}", was.hardware.accelerator, starter.accelerator);
            return Err(EngineError::failed(STEP, detail));
        }
        let mac = hardware::mac(spec.id);
        let another = was.hardware.mac != mac;
        let hardware = Hardware { mac, ..was.hardware };
        let now = starter.launch(folder, spec, boot, hardware, manifest.image, Some(manifest.slot))?;
        let mut monitor = Monitor::open(&folder.monitor())?;
        transfer::read(&saved.path, &mut monitor)?;
        let used = folder.used_memory();
        trash::remove_tree(&used)?;
        memory::becomes(&saved.path, &used)?;
        if let Err(error) = monitor.ask("cont", json!({})) {
            match stands(&mut monitor) {
                // Memory that did not run on is as good as before.
                Ok(true) => {
                    memory::becomes(&used, &folder.memory())?;
                    return Err(error);
                }
                Err(_) => return Err(error),
                Ok(false) => tracing::warn!(computer = %folder.id, %error, "the guest goes on all the same"),
            }
        }
        // From here on the guest runs: what cannot be removed is no reason to take it back.
        if let Err(error) = trash::remove_tree(&used) {
            tracing::warn!(computer = %folder.id, %error, "used memory was not removed");
        }
        match identify(folder, boot) {
            Ok(()) => set_clock(folder),
            Err(error) if another => return Err(error),
            Err(error) => {
                tracing::warn!(computer = %folder.id, %error, "an agent that is started again has an earlier token");
            }
        }
        Ok(Endpoint::Tcp(now.agent))
    }

    /// QEMU's version, in its own words.
    fn version(&self) -> EngineResult<String> {
        let mut qemu = tool(&self.config.program);
        qemu.arg("--version");
        run("ask QEMU for its version", qemu).map(|text| text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Has a guest stand still.
fn hold(folder: &Folder, monitor: &mut Monitor) -> EngineResult<()> {
    // Its memory has what is not written yet, but memory may be given up for the disk alone.
    if let Err(error) = line::ask(folder, "flush", FLUSH_TIMEOUT) {
        tracing::info!(computer = %folder.id, %error, "a guest stands still with writes that only its memory has");
    }
    memory::fresh(folder)?;
    monitor.ask("stop", json!({})).map(drop)
}

/// Lets a guest go on; what was saved of it counts no more before it does. An empty folder says meanwhile that it stands.
fn go_on(folder: &Folder, monitor: &mut Monitor) -> EngineResult<()> {
    let fresh = memory::fresh(folder)?;
    if stands(monitor)? {
        transfer::call_off(monitor)?;
        monitor.ask("cont", json!({}))?;
        // Its clock stood too.
        set_clock(folder);
    }
    trash::remove_tree(&fresh)?;
    trash::remove_tree(&folder.used_memory())
}

/// Sets a guest's clock to this host's. What it is told is as old as its way there, so that a slow way is gone again; a guest that
/// is slow on purpose costs [`TIMEOUT`].
fn set_clock(folder: &Folder) {
    let until = Instant::now() + TIMEOUT;
    for _ in 0..MOST_CLOCKS {
        let asked = Instant::now();
        match line::ask(folder, &format!("clock {}", now_ms()), until.saturating_duration_since(asked)) {
            Ok(()) if asked.elapsed() <= QUICK => return,
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(computer = %folder.id, %error, "a guest's clock is late by as long as it stood still");
                return;
            }
        }
    }
    tracing::warn!(computer = %folder.id, "a guest's clock may be late: it answers slowly");
}

/// Whether a guest stands still.
pub(super) fn stands(monitor: &mut Monitor) -> EngineResult<bool> {
    let state = monitor.ask("query-status", json!({}))?;
    let running = state.get("running").and_then(Value::as_bool);
    running.map(|runs| !runs).ok_or_else(|| EngineError::failed("look whether the guest stands", state))
}

/// Gives a guest what its host gives each at every boot: the link address, which QEMU hears of from the guest alone once that runs,
/// the machine-id, and the token that an agent reads which is started again. Until a guest with another machine's memory has them,
/// nobody reaches it: its address is nobody's, and its frames end in its own namespace. The rest its agent renews.
fn identify(folder: &Folder, boot: &Boot) -> EngineResult<()> {
    let (mac, machine_id) = (hardware::mac(folder.id), staged::machine_id(folder.id));
    line::ask(folder, &format!("identity {mac} {machine_id} {}", boot.token.reveal()), TIMEOUT)
}
