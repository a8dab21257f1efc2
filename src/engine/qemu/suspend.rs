//! How is a virtual machine's memory saved and continued? As QEMU moves one to another host, with a file in between.
//!
//! ```text
//!   Running -- stop, migrate, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^   (an error: cont)                                                          |
//!      |---- cont <-- memory.used <-- paused <-- migrate-incoming <-- verify, launch |
//! ```
//! The guest stands still from before its memory is read until it is killed, so that memory and disk are of one moment. QEMU is
//! handed a pipe: it opens no file and starts no program of its own.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::boot::Record;
use super::hardware::Accelerator;
use super::monitor::Monitor;
use super::{Inner, QemuEngine, line};
use crate::base::ids::ComputerId;
use crate::engine::command::{self, host_error, judge, run, spawn, tool};
use crate::engine::layout::{self, Folder, write_durably};
use crate::engine::memory::{self, Manifest, Saved};
use crate::engine::{
    Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation, disk, lock, slots, trash,
};

/// Saving and reading 16 GiB at the 60 MB/s of a slow disk.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a guest may take to write back what it holds before it sleeps without: a gigabyte on a slow disk.
const FLUSH_PATIENCE: Duration = Duration::from_secs(20);
/// As fast as it goes, in bytes a second; QEMU's own choice spares a network.
const UNBOUNDED: u64 = 1 << 40;
/// What saved memory consists of, beside its manifest: the record of the boot, and the memory, compressed where that can be done.
const RECORD: &str = "machine.json";
const PLAIN: &str = "memory";
const COMPRESSED: &str = "memory.zst";

impl QemuEngine {
    /// See [`Engine::suspend`](crate::engine::Engine::suspend).
    pub(super) async fn keep_memory(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Stopped => {
                return Err(EngineError::failed("save memory", "the machine does not run"));
            }
            Observation::Suspended { .. } => {}
            Observation::Running { .. } => {
                let plan = folder.clone();
                self.blocking(move |inner| inner.save(&plan)).await?;
            }
        }
        self.settle(&folder).await
    }

    /// Ends a guest whose memory is whole on the disk, and brings its disk to rest.
    async fn settle(&self, folder: &Folder) -> EngineResult<()> {
        self.halt(folder, Duration::ZERO).await?;
        let folder = folder.clone();
        self.blocking(move |_| match Saved::find(&folder)? {
            Some(saved) if !saved.settled => memory::becomes(&saved.path, &folder.memory()),
            Some(_) | None => Ok(()),
        })
        .await
    }

    /// See [`Engine::resume`](crate::engine::Engine::resume).
    pub(super) async fn continue_memory(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        let (id, folder) = (spec.id, self.inner.state.folder(spec.id));
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
                return Ok(endpoint);
            }
            Observation::Running { .. } | Observation::Stopped => {
                return Err(EngineError::failed("continue the machine", "it has no saved memory"));
            }
            Observation::Suspended { .. } => self.settle(&folder).await?,
        }
        let (plan, of, boot) = (folder.clone(), spec.clone(), boot.clone());
        let held = Arc::new(held);
        let locked = Arc::clone(&held);
        let continued = self.blocking(move |inner| {
            plan.write_record(&layout::Record::of(&of))?;
            inner.restore(&plan, &of, &boot, &locked)
        });
        let continued = continued.await;
        if continued.is_err()
            && let Err(left) = self.halt(&folder, Duration::ZERO).await
        {
            tracing::warn!(computer = %id, error = %left, "a failed resume left something behind");
        }
        continued
    }

    /// See [`Engine::discard_memory`](crate::engine::Engine::discard_memory).
    pub(super) async fn drop_memory(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        let seen = self.blocking(move |inner| inner.observe(id)).await?;
        if !matches!(seen, Observation::Suspended { .. }) {
            return Ok(());
        }
        self.settle(&folder).await?;
        self.blocking(move |inner| memory::discard(&inner.state, &folder)).await
    }

    /// Lets a guest go on that a suspend or a resume of a controller which died left standing.
    pub(super) async fn go_on_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        if !folder.fresh_memory().exists() && !folder.used_memory().exists() {
            return Ok(());
        }
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |inner| {
            let runs = matches!(inner.observe(folder.id)?, Observation::Running { .. });
            if runs { go_on(&folder, &mut Monitor::open(&folder.monitor())?) } else { Ok(()) }
        })
        .await
    }
}

impl Inner {
    /// Saves a guest's memory. On success it stands still, on error it goes on.
    fn save(&self, folder: &Folder) -> EngineResult<()> {
        disk::check_reserve(&folder.path)?;
        let Some((record, _)) = self.running(folder)? else { return Err(EngineError::Absent) };
        // Its memory has what is not written yet, but memory may be given up for the disk alone.
        if let Err(error) = line::ask(folder, "flush", FLUSH_PATIENCE) {
            tracing::info!(computer = %folder.id, %error, "a guest sleeps with writes that only its memory has");
        }
        let mut monitor = Monitor::open(&folder.monitor())?;
        let saved = self.save_standing(folder, &mut monitor, record);
        if saved.is_err()
            && let Err(error) = go_on(folder, &mut monitor)
        {
            tracing::warn!(computer = %folder.id, %error, "a guest stands still after a suspend that failed");
        }
        saved
    }

    fn save_standing(&self, folder: &Folder, monitor: &mut Monitor, mut record: Record) -> EngineResult<()> {
        const STEP: &str = "save the guest's memory";
        let fresh = memory::fresh(folder)?;
        monitor.ask("stop", json!({}))?;
        record.hardware.added_cpus = added_cpus(monitor, record.hardware.cpus)?;
        write_memory(&fresh, monitor)?;
        let text = serde_json::to_vec(&record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&fresh.join(RECORD), &text).map_err(host_error(STEP, &fresh))?;
        let host_boot = record.host_boot.clone();
        let (runtime, slot) = (self.version()?, slots::held(folder)?);
        let image = record.image.clone();
        memory::seal(&fresh, record.generation, |parts| Manifest {
            host_boot,
            runtime,
            image,
            hostname: None,
            slot,
            parts,
        })
    }

    fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &lock::MachineLock,
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
        let now = starter.launch(folder, spec, boot, was.hardware, manifest.image, Some(manifest.slot))?;
        let mut monitor = Monitor::open(&folder.monitor())?;
        read_memory(&saved.path, &mut monitor)?;
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
        Ok(Endpoint::Tcp(now.agent))
    }

    /// QEMU's version, in its own words.
    pub(super) fn version(&self) -> EngineResult<String> {
        let mut qemu = tool(&self.config.program);
        qemu.arg("--version");
        run("ask QEMU for its version", qemu).map(|text| text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Lets a guest go on; what was saved of it counts no more before it does. An empty folder says meanwhile that it stands.
fn go_on(folder: &Folder, monitor: &mut Monitor) -> EngineResult<()> {
    let fresh = memory::fresh(folder)?;
    if stands(monitor)? {
        monitor.ask("cont", json!({}))?;
    }
    trash::remove_tree(&fresh)?;
    trash::remove_tree(&folder.used_memory())
}

fn stands(monitor: &mut Monitor) -> EngineResult<bool> {
    let state = monitor.ask("query-status", json!({}))?;
    let running = state.get("running").and_then(Value::as_bool);
    running.map(|runs| !runs).ok_or_else(|| EngineError::failed("look whether the guest stands", state))
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

/// Writes a standing guest's memory to a file in `fresh`.
fn write_memory(fresh: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "write the guest's memory";
    let create = |name: &str| {
        let path = fresh.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(host_error(STEP, &path))
    };
    let mut compressing = None;
    if can_compress() {
        let mut zstd = tool("zstd");
        // The least effort: memory is mostly zeros and text, and the guest waits.
        zstd.args(["-q", "-1", "-T0", "-c"]).stdout(create(COMPRESSED)?).stderr(Stdio::null());
        let (ours, theirs) = std::io::pipe().map_err(|error| EngineError::failed(STEP, error))?;
        compressing = Some(spawn(STEP, zstd.stdin(ours))?);
        monitor.hand_over("memory", theirs.as_fd())?;
    } else {
        monitor.hand_over("memory", create(PLAIN)?.as_fd())?;
    }
    monitor.ask("migrate-set-parameters", json!({ "max-bandwidth": UNBOUNDED }))?;
    monitor.ask("migrate", json!({ "uri": "fd:memory" }))?;
    let moved =
        monitor.until("query-migrate", PATIENCE, |state| match state.get("status").and_then(Value::as_str) {
            Some("completed") => Ok(Some(())),
            Some(ended @ ("failed" | "cancelled")) => {
                Err(EngineError::failed(STEP, format!("{ended}: {state}")))
            }
            Some(_) | None => Ok(None),
        });
    if moved.is_err()
        && let Err(error) = monitor.ask("migrate_cancel", json!({}))
    {
        tracing::warn!(%error, "a guest's memory is still being written");
    }
    match compressing {
        // Its input has ended with the migration.
        Some(zstd) if moved.is_ok() => ended(STEP, zstd),
        Some(mut zstd) => {
            let killed = zstd.kill().and_then(|()| zstd.wait());
            killed.map_err(|error| EngineError::failed(STEP, error))?;
            moved
        }
        None => moved,
    }
}

/// Gives a QEMU that waits for it the memory in a folder. On return the guest has it and stands.
fn read_memory(saved: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "read the guest's memory";
    let open = |name: &str| File::open(saved.join(name)).map_err(host_error(STEP, &saved.join(name)));
    let mut expanding = None;
    if saved.join(COMPRESSED).exists() {
        let mut zstd = tool("zstd");
        zstd.args(["-q", "-d", "-c"]).stdin(open(COMPRESSED)?).stderr(Stdio::null());
        let (theirs, ours) = std::io::pipe().map_err(|error| EngineError::failed(STEP, error))?;
        expanding = Some(spawn(STEP, zstd.stdout(ours))?);
        monitor.hand_over("memory", theirs.as_fd())?;
    } else {
        monitor.hand_over("memory", open(PLAIN)?.as_fd())?;
    }
    monitor.ask("migrate-incoming", json!({ "uri": "fd:memory" }))?;
    // `inmigrate` until all of it is there; a guest that was let go on before would have half of its memory.
    let there =
        monitor.until("query-status", PATIENCE, |state| match state.get("status").and_then(Value::as_str) {
            Some("paused" | "postmigrate") => Ok(Some(())),
            Some("inmigrate" | "prelaunch") => Ok(None),
            Some(_) | None => Err(EngineError::failed(STEP, state)),
        });
    match expanding {
        Some(zstd) if there.is_ok() => ended(STEP, zstd),
        Some(mut zstd) => {
            let killed = zstd.kill().and_then(|()| zstd.wait());
            killed.map_err(|error| EngineError::failed(STEP, error))?;
            there
        }
        None => there,
    }
}

fn can_compress() -> bool {
    let mut zstd: Command = tool("zstd");
    zstd.arg("--version");
    run("look for zstd", zstd).is_ok()
}

fn ended(step: &'static str, mut child: Child) -> EngineResult<()> {
    let status = command::finish(step, &mut child, PATIENCE)?;
    judge(step, status, "zstd")
}
