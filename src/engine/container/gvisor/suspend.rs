//! Suspend and resume of a gVisor guest.
//!
//! ```text
//!   Running -- pause, checkpoint, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^  (an error: unseal, thaw)                                                       |
//!      |------- restore <-- memory.used <------- verify, create, network ----------------|
//! ```
//! The guest is paused from before its memory is read until it is killed, so that memory and disk are of one
//! moment. For a fork, or a snapshot with memory, it continues once its disk is copied. The checkpoint writes
//! its dirty data to the disk.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::container::boot::ContainerStarter;
use crate::container::runtime::{ContainerState, Runtime};
use crate::container::{ContainerEngine, oci, runsc};
use crate::driver::{GuestDriver, GuestMemory, GuestShutdown, MachineBoot, after_unpause, log_pause};
use crate::host::cgroup::limits;
use crate::host::command::{self, host_error, run, run_with_timeout, run_without_output};
use crate::host::{network, process, slots};
use crate::state::disk::{self, copy};
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::state::memory::{self, MemoryManifest, SavedMemory};
use crate::state::trash;
use crate::{Endpoint, EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::both;
use hotdesk_base::time::phase::PhaseTimer;

/// For saving or reading 16 GiB at the 60 MB/s of a slow disk.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Pauses a guest.
pub(crate) fn pause(runtime: &Runtime, id: ComputerId) -> EngineResult<()> {
    let mut command = runtime.call();
    command.arg("pause").arg(id.to_string());
    run("pause the guest", command).map(drop)
}

/// Lets a paused guest continue.
pub(crate) fn unpause(runtime: &Runtime, id: ComputerId) -> EngineResult<()> {
    let mut command = runtime.call();
    command.arg("resume").arg(id.to_string());
    run("unpause the guest", command).map(drop)
}

/// Saves the memory of a paused guest in the folder `to`. The guest stays paused.
pub(crate) fn save_memory(runtime: &Runtime, id: ComputerId, to: &Path) -> EngineResult<()> {
    const STEP: &str = "save the guest's memory";
    let mut save = runtime.call();
    save.args(["checkpoint", "--leave-running", "--compression", "none", "--exclude-committed-zero-pages"]);
    save.arg("--image-path").arg(to).arg(id.to_string());
    let (status, _, complaint) =
        memory::write_back_during(to, || run_with_timeout(STEP, &mut save, None, TIMEOUT))?;
    command::check_status(STEP, status, &complaint)
}

/// Continues a created guest from the memory in the folder `from`. The tool holds `lock` until its end.
pub(crate) fn load_memory(
    runtime: &Runtime,
    id: ComputerId,
    from: &Path,
    lock: impl Into<Stdio>,
) -> EngineResult<()> {
    let mut restore = runtime.call();
    restore.args(["restore", "--detach", "--image-path"]).arg(from).arg(id.to_string());
    restore.stdin(lock);
    runsc::run_with_guest_network("continue from saved memory", restore, TIMEOUT)
}

impl GuestMemory for ContainerEngine {
    fn version(&self, _folder: &Folder) -> EngineResult<String> {
        self.runtime.version()
    }

    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        let saved = self.save_paused(folder, generation);
        if saved.is_ok() { saved } else { after_unpause(folder, saved, self.unpause(folder)) }
    }

    fn save_with_disk(
        &self,
        folder: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest> {
        let taken = self.pause(folder).and_then(|(state, since)| {
            self.checkpoint(folder, memory)?;
            let manifest = self.manifest(folder, &state)?;
            copy::copy_disk(&folder.disk(), fresh, to).map(|()| (manifest, since))
        });
        let (manifest, since) = after_unpause(folder, taken, self.unpause(folder))?;
        log_pause(folder, since);
        Ok(manifest)
    }

    fn recover_resume(&self, folder: &Folder) -> EngineResult<()> {
        let used = folder.used_memory();
        if !used.exists() {
            return Ok(());
        }
        match self.state_of(folder.id)?.as_ref().map(|state| state.status.as_str()) {
            // The guest never ran, so its memory is valid again.
            Some("created") => memory::move_to(&used, &folder.memory()),
            Some("running") => trash::remove_tree(&used),
            Some(_) | None => Ok(()),
        }
    }

    fn restore(
        &self,
        machine: &MachineBoot<'_>,
        saved: &SavedMemory,
        manifest: MemoryManifest,
    ) -> EngineResult<Endpoint> {
        const STEP: &str = "continue from saved memory";
        let MachineBoot { folder, lock, .. } = *machine;
        let starter = ContainerStarter {
            host: &self.host,
            runtime: &self.runtime,
            image: &manifest.image,
            agent: &folder.agent(),
            wanted_slot: manifest.slot,
        };
        // `runsc` reads nothing of the memory before its restore.
        let verify = || {
            let _phase = PhaseTimer::begin(folder.id, "checks");
            saved.verify(&manifest)
        };
        let (verified, prepared) =
            both(verify, || starter.prepare(machine)).map_err(host_error(STEP, &saved.path))?;
        // Damage comes first: it decides what becomes of the memory.
        let verified = verified?;
        let endpoint = prepared?;
        let used = saved.mark_used(folder, verified)?;
        let _phase = PhaseTimer::begin(folder.id, "runtime restore");
        // The tool shares the lock: if this controller dies, the next one waits for its end.
        let lock = lock.share().map_err(host_error(STEP, &used))?;
        load_memory(&self.runtime, folder.id, &used, lock)?;
        // The guest runs from here on.
        memory::remove_used(folder);
        Ok(endpoint)
    }

    async fn undo_restore(&self, folder: &Folder) -> EngineResult<()> {
        let (plan, id) = (folder.clone(), folder.id);
        let undone = self.blocking(move |engine| {
            let runtime = &engine.runtime;
            let ran = runtime.state(id)?.is_some_and(|state| state.status == "running");
            runtime.delete(id)?;
            let used = plan.used_memory();
            if used.exists() && !ran { memory::move_to(&used, &plan.memory()) } else { Ok(()) }
        });
        undone.await?;
        self.sweep(folder).await
    }
}

impl ContainerEngine {
    /// Unpauses a guest that the suspend of a dead controller left paused, and unblocks its clients.
    pub(in super::super) async fn unpause_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.host.state.folder(id);
        let Some(guard) = MachineLock::acquire(&folder).await? else { return Ok(()) };
        self.blocking(move |engine| {
            // The step holds the lock, because it completes even when its caller is dropped. It must not undo
            // a later pause.
            let _guard = guard;
            let Some(state) = engine.state_of(id)? else { return Ok(()) };
            match (state.status.as_str(), SavedMemory::find(&folder)?) {
                ("paused", None) => engine.unpause(&folder),
                // It runs already, and its clients could not be unblocked before.
                (_, None) => engine.unblock_agent(&folder),
                (_, Some(_)) => Ok(()),
            }
        })
        .await
    }

    fn save_paused(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        let fresh = memory::create_fresh(folder)?;
        let (state, since) = self.pause(folder)?;
        self.checkpoint(folder, &fresh)?;
        let manifest = self.manifest(folder, &state)?;
        let _phase = PhaseTimer::begin(folder.id, "seal");
        memory::seal(&fresh, generation, |parts| MemoryManifest { parts, ..manifest })?;
        log_pause(folder, since);
        Ok(())
    }

    /// Sets how many CPUs the programs of a running guest see.
    pub(in super::super) fn set_guest_cpus(&self, id: ComputerId, count: u32) {
        let mut call = self.runtime.call();
        call.arg("exec").arg(id.to_string());
        call.args(["/usr/bin/hotdesk", "set-cpus"]).arg(count.to_string());
        if let Err(error) = run_without_output("set the CPUs that the guest's programs see", call) {
            // The control group bounds the guest all the same.
            tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not tell a guest its new number of CPUs; its programs count the earlier one until the next start");
        }
    }

    /// Blocks the agent's clients, ends their connections, and pauses the guest. Returns since when it stands still.
    fn pause(&self, folder: &Folder) -> EngineResult<(ContainerState, Instant)> {
        let Some(state) = self.state_of(folder.id)? else { return Err(EngineError::Absent) };
        let connections = PhaseTimer::begin(folder.id, "connections");
        let agent = match slots::of_machine(&folder.path)? {
            Some(slot) => {
                network::block_agent_clients(&self.host.settings.network, slot)?;
                Some(network::agent(&self.host.settings.network, slot))
            }
            None => None,
        };
        let mut since = Instant::now();
        if state.status != "paused" {
            // Before the pause, so that the guest's kernel closes its ends: a paused one would save them half
            // open.
            if let Some(agent) = agent {
                super::cut_connections(agent)?;
                super::await_hangup(&self.runtime, folder.id, agent.port());
            }
            drop(connections);
            let _phase = PhaseTimer::begin(folder.id, "runtime pause");
            since = Instant::now();
            pause(&self.runtime, folder.id)?;
        }
        agent.map_or(Ok(()), super::cut_connections)?;
        Ok((state, since))
    }

    /// Saves the memory of a paused guest, which stays paused.
    fn checkpoint(&self, folder: &Folder, to: &Path) -> EngineResult<()> {
        let _phase = PhaseTimer::begin(folder.id, "runtime save");
        disk::check_free_space(&folder.path, limits::resident(folder.id))?;
        save_memory(&self.runtime, folder.id, to)
    }

    /// The manifest of this guest's memory, without its files.
    fn manifest(&self, folder: &Folder, state: &ContainerState) -> EngineResult<MemoryManifest> {
        let host_boot = process::boot_id().map_err(host_error("seal the saved memory", &folder.path))?;
        let (runtime, slot) = (self.runtime.version()?, slots::of_machine(&folder.path)?);
        let image =
            state.annotations.get(oci::IMAGE).map_or_else(|| self.host.settings.image.clone(), Into::into);
        Ok(MemoryManifest { host_boot, runtime, image, slot, parts: Vec::new() })
    }

    /// Invalidates what was saved of a guest, then unpauses it and unblocks its clients. Accepts a guest that
    /// was not paused.
    fn unpause(&self, folder: &Folder) -> EngineResult<()> {
        trash::remove_tree(&folder.fresh_memory())?;
        if let Err(error) = unpause(&self.runtime, folder.id) {
            // If the pause itself failed, the guest runs and the runtime has nothing to resume.
            let state = self.state_of(folder.id);
            if !state.is_ok_and(|state| state.is_some_and(|state| state.status == "running")) {
                return Err(error);
            }
        }
        // The guest is unpaused first: an error of the packet rules must not keep it paused.
        self.unblock_agent(folder)
    }

    /// Unblocks the clients that [`Self::pause`] blocked. Needs the machine's lock.
    pub(in super::super) fn unblock_agent(&self, folder: &Folder) -> EngineResult<()> {
        slots::of_machine(&folder.path)?
            .map_or(Ok(()), |slot| network::allow_agent_clients(&self.host.settings.network, slot))
    }
}
