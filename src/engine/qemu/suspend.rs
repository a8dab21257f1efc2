//! Suspend and resume of a virtual machine.
//!
//! ```text
//!   Running -- stop, transfer, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^   (an error: cont)                                                            |
//!      |---- identity <-- cont <-- memory.used <-- transfer <-- verify, launch ------|
//! ```
//! The guest is paused from before its memory is read until it is killed, so that memory and disk are of one
//! moment. For a fork, or a snapshot with memory, it continues once its disk is copied. Until then the folder
//! `memory.new` marks it as paused.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::driver::{GuestDriver, GuestMemory, GuestShutdown, MachineBoot, after_unpause, log_pause};
use crate::host::command::host_error;
use crate::host::files::write_durably;
use crate::host::{freeze, slots};
use crate::qemu::boot::BootRecord;
use crate::qemu::hardware::{self, Accelerator, Hardware};
use crate::qemu::monitor::Monitor;
use crate::qemu::resize::{added_cpus, added_mib};
use crate::qemu::{QemuEngine, control_port, transfer};
use crate::state::disk::copy;
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{self, MemoryManifest, SavedMemory};
use crate::state::{boot_files, trash};
use crate::{Boot, Endpoint, EngineError, EngineResult, Observation};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::phase::PhaseTimer;

/// For a guest to write back its dirty data before a suspend, which happens in any case: a gigabyte on a slow
/// disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(20);
/// For the guest's first process to take a new identity or time; it is idle until then.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A clock setting that is acknowledged within this is accurate enough: half of the 0.5 s within which a
/// clock must be right.
const CLOCK_ROUND_TRIP: Duration = Duration::from_millis(250);
/// Attempts to set the clock; a host that is too busy each time stays so.
const CLOCK_ATTEMPTS: usize = 5;
/// The boot record among the files of saved memory.
const RECORD: &str = "machine.json";

impl GuestMemory for QemuEngine {
    fn version(&self, _folder: &Folder) -> EngineResult<String> {
        self.settings.version()
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        let mut monitor = Monitor::open(&folder.monitor())?;
        let fresh = folder.fresh_memory();
        let saved = pause(folder, &mut monitor).and_then(|since| {
            let save = PhaseTimer::begin(folder.id, "runtime save");
            let manifest = self.write_state(folder, &mut monitor, &fresh)?;
            drop(save);
            let _phase = PhaseTimer::begin(folder.id, "seal");
            memory::seal(&fresh, generation, |parts| MemoryManifest { parts, ..manifest })?;
            log_pause(folder, since);
            Ok(())
        });
        if saved.is_ok() { saved } else { after_unpause(folder, saved, unpause(folder, &mut monitor)) }
    }

    fn save_with_disk(
        &self,
        folder: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest> {
        let mut monitor = Monitor::open(&folder.monitor())?;
        let taken = pause(folder, &mut monitor).and_then(|since| {
            let manifest = self.write_state(folder, &mut monitor, memory)?;
            let deadline = Some(Instant::now() + freeze::MAX_FREEZE);
            copy::copy_disk_during(&folder.disk(), fresh, to, |copy| copy(deadline))?;
            Ok((manifest, since))
        });
        let (manifest, since) = after_unpause(folder, taken, unpause(folder, &mut monitor))?;
        log_pause(folder, since);
        Ok(manifest)
    }

    fn restore(
        &self,
        machine: &MachineBoot<'_>,
        saved: &SavedMemory,
        manifest: MemoryManifest,
    ) -> EngineResult<Endpoint> {
        const STEP: &str = "continue from saved memory";
        let MachineBoot { folder, spec, boot, .. } = *machine;
        let checks = PhaseTimer::begin(folder.id, "checks");
        // First: QEMU starts as the record among the files says.
        let verified = saved.verify(&manifest)?;
        drop(checks);
        let text = fs::read(saved.path.join(RECORD)).map_err(host_error(STEP, &saved.path))?;
        let was: BootRecord = serde_json::from_slice(&text)
            .map_err(|error| EngineError::Damaged(format!("{}: {RECORD}: {error}", saved.path.display())))?;
        let starter = self.starter();
        // Every host can emulate, so memory saved under emulation resumes everywhere.
        if was.hardware.accelerator == Accelerator::Kvm && starter.accelerator != Accelerator::Kvm {
            let detail = format!(
                "it was saved with {:?}, and this host has {:?}",
                was.hardware.accelerator, starter.accelerator
            );
            return Err(EngineError::failed(STEP, detail));
        }
        let mac = hardware::mac(spec.id);
        let another = was.hardware.mac != mac;
        let hardware = Hardware { mac, ..was.hardware };
        let now = starter.launch(machine, hardware, manifest.image, Some(manifest.slot))?;
        let mut monitor = Monitor::open(&folder.monitor())?;
        let restore = PhaseTimer::begin(folder.id, "runtime restore");
        transfer::read(&saved.path, &mut monitor)?;
        drop(restore);
        let used = saved.mark_used(folder, verified)?;
        if let Err(error) = monitor.ask("cont", json!({})) {
            match is_paused(&mut monitor) {
                // The guest did not run, so its memory is valid again.
                Ok(true) => {
                    memory::move_to(&used, &folder.memory())?;
                    return Err(error);
                }
                Err(_) => return Err(error),
                Ok(false) => {
                    tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "the command to continue failed, but the guest runs")
                }
            }
        }
        // The guest runs from here on.
        memory::remove_used(folder);
        match set_identity(folder, boot) {
            Ok(()) => set_clock(folder),
            Err(error) if another => return Err(error),
            Err(error) => {
                tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not renew the token file of a guest; an agent that restarts uses the earlier token");
            }
        }
        Ok(Endpoint::Tcp(now.agent))
    }

    async fn undo_restore(&self, folder: &Folder) -> EngineResult<()> {
        self.halt(folder, Duration::ZERO).await
    }
}

impl QemuEngine {
    /// Unpauses a guest that a dead controller left paused.
    pub(super) async fn unpause_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.host.state.folder(id);
        if !folder.fresh_memory().exists() && !folder.used_memory().exists() {
            return Ok(());
        }
        let Some(_guard) = MachineLock::acquire(&folder).await? else { return Ok(()) };
        self.blocking(move |engine| {
            let runs = SavedMemory::find(&folder)?.is_none()
                && matches!(engine.observe_guest(&folder)?, Observation::Running { .. });
            if runs { unpause(&folder, &mut Monitor::open(&folder.monitor())?) } else { Ok(()) }
        })
        .await
    }

    /// Writes the memory of a paused guest and its boot record.
    fn write_state(&self, folder: &Folder, monitor: &mut Monitor, to: &Path) -> EngineResult<MemoryManifest> {
        const STEP: &str = "save the guest's memory";
        let Some((mut record, _)) = self.running(folder)? else { return Err(EngineError::Absent) };
        record.hardware.added_cpus = added_cpus(monitor, record.hardware.cpus)?;
        record.hardware.added_mib = Some(added_mib(monitor)?);
        memory::write_back_during(to, || transfer::write(to, monitor))?;
        let text = serde_json::to_vec(&record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&to.join(RECORD), &text).map_err(host_error(STEP, to))?;
        Ok(MemoryManifest {
            host_boot: record.host_boot,
            runtime: self.settings.version()?,
            image: record.image,
            slot: slots::of_machine(&folder.path)?,
            parts: Vec::new(),
        })
    }
}

/// Pauses a guest. Returns since when it stands still.
fn pause(folder: &Folder, monitor: &mut Monitor) -> EngineResult<Instant> {
    // Saved memory has the dirty data, but the memory may be discarded later.
    if let Err(error) = control_port::ask(folder, "flush", FLUSH_TIMEOUT) {
        tracing::info!(computer = %folder.id, error = format_args!("{error:#}"), "could not flush a guest before its suspend; only its saved memory has its latest writes");
    }
    memory::create_fresh(folder)?;
    let since = Instant::now();
    monitor.ask("stop", json!({})).map(|_| since)
}

/// Invalidates what was saved of a guest, then unpauses it. An empty `memory.new` marks it as paused until
/// then.
fn unpause(folder: &Folder, monitor: &mut Monitor) -> EngineResult<()> {
    let fresh = memory::create_fresh(folder)?;
    if is_paused(monitor)? {
        transfer::cancel(monitor)?;
        monitor.ask("cont", json!({}))?;
        // The guest's clock stopped with it.
        set_clock(folder);
    }
    trash::remove_tree(&fresh)?;
    trash::remove_tree(&folder.used_memory())
}

/// Sets a guest's clock to this host's. The value is late by the time of its transfer, so a slow transfer is
/// repeated. A guest that is slow on purpose costs [`TIMEOUT`].
fn set_clock(folder: &Folder) {
    let until = Instant::now() + TIMEOUT;
    for _ in 0..CLOCK_ATTEMPTS {
        let asked = Instant::now();
        match control_port::ask(
            folder,
            &format!("clock {}", clock::now().as_i64()),
            until.saturating_duration_since(asked),
        ) {
            Ok(()) if asked.elapsed() <= CLOCK_ROUND_TRIP => return,
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not set a guest's clock after a pause; it is late by the length of the pause");
                return;
            }
        }
    }
    tracing::warn!(computer = %folder.id, "a guest's clock may be late, because the guest answers slowly");
}

/// Whether a guest is paused.
pub(super) fn is_paused(monitor: &mut Monitor) -> EngineResult<bool> {
    let state = monitor.ask("query-status", json!({}))?;
    let running = state.get("running").and_then(Value::as_bool);
    running.map(|runs| !runs).ok_or_else(|| EngineError::failed("read the guest's run state", state))
}

/// Sets a guest's link address, machine-id, and token file. Only the guest can change the link address while
/// it runs. A fork is unreachable before this: its link address belongs to no device of its namespace. The
/// agent renews the rest.
fn set_identity(folder: &Folder, boot: &Boot) -> EngineResult<()> {
    let (mac, machine_id) = (hardware::mac(folder.id), boot_files::machine_id(folder.id));
    control_port::ask(folder, &format!("identity {mac} {machine_id} {}", boot.token.reveal()), TIMEOUT)
}
