//! How is a guest's memory saved and continued?
//!
//! ```text
//!   Running -- pause, checkpoint, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^  (an error: unseal, thaw)                                                       |
//!      |------- restore <-- memory.used <------- verify, create, network ----------------|
//! ```
//! The guest stands still from before its memory is read until it is killed, so that memory and disk are of one moment. For a
//! fork, or a snapshot with memory, it goes on instead once its disk is copied; what it had not written yet goes to the disk
//! with the checkpoint.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::super::boot::Starter;
use super::super::command::{self, host_error, run, run_patiently};
use super::super::config::ContainerConfig;
use super::super::layout::Folder;
use super::super::lock::{self, MachineLock};
use super::super::memory::{self, Manifest, Saved};
use super::super::runtime::State;
use super::super::{ContainerEngine, Inner, Machinery, copy, disk, network, oci, process, slots, trash};
use crate::machinery::gone_on;
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::ComputerId;

/// Saving and reading 16 GiB at the 60 MB/s of a slow disk.
const TIMEOUT: Duration = Duration::from_secs(300);
/// For a guest's kernel to take in that connections ended, where that cannot be seen. 20 ms are too few on a host whose processors
/// are all busy.
const UNSEEN: Duration = Duration::from_millis(500);

impl ContainerEngine {
    /// Takes a failed restore back. Where the guest did not run, its memory is as good as before.
    pub(in super::super) async fn take_back(&self, folder: &Folder) -> EngineResult<()> {
        let (plan, id) = (folder.clone(), folder.id);
        let kept = self.blocking(move |engine| {
            let runtime = &engine.inner.runtime;
            let ran = runtime.state(id)?.is_some_and(|state| state.status == "running");
            runtime.delete(id)?;
            let used = plan.used_memory();
            if used.exists() && !ran { memory::becomes(&used, &plan.memory()) } else { Ok(()) }
        });
        kept.await?;
        self.clear(folder).await
    }

    /// Lets a guest go on that a suspend of a controller which died left standing, and its clients in.
    pub(in super::super) async fn thaw_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |engine| {
            // With the step, which runs on when nobody waits for it any more: it must not undo a hold that began since.
            let _held = held;
            let Some(state) = engine.inner.state_of(id)? else { return Ok(()) };
            match (state.status.as_str(), Saved::find(&folder)?) {
                ("paused", None) => engine.inner.thaw(&folder),
                // One that goes on already, and whose clients could not be let in then.
                (_, None) => engine.inner.let_in(&folder),
                (_, Some(_)) => Ok(()),
            }
        })
        .await
    }
}

impl Inner {
    /// Saves a guest's memory. On success it stands still, on error it goes on.
    pub(in super::super) fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        disk::check_reserve(&folder.path)?;
        let saved = self.save_standing(folder, generation);
        if saved.is_ok() { saved } else { gone_on(folder, saved, self.thaw(folder)) }
    }

    fn save_standing(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        let fresh = memory::fresh(folder)?;
        let state = self.hold(folder)?;
        self.checkpoint(folder, &fresh)?;
        let manifest = self.manifest(folder, &state)?;
        memory::seal(&fresh, generation, |parts| Manifest { parts, ..manifest })
    }

    /// Saves a guest's memory to `memory` and copies its disk, both while it stands still. It goes on afterwards, whatever came
    /// of it. What remains is to seal the memory.
    pub(in super::super) fn moment(
        &self,
        folder: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<Manifest> {
        let taken = self.hold(folder).and_then(|state| {
            self.checkpoint(folder, memory)?;
            let manifest = self.manifest(folder, &state)?;
            copy::disk(&folder.disk(), fresh, to).map(|()| manifest)
        });
        gone_on(folder, taken, self.thaw(folder))
    }

    /// Tells a guest's kernel its host name, which it remembers from the machine that it was. The guest's root may not do
    /// that; the agent's executable, which it cannot replace, may for this once.
    fn name_guest(&self, id: ComputerId) -> EngineResult<()> {
        let mut call = self.runtime.call();
        call.args(["exec", "--cap", "CAP_SYS_ADMIN"]).arg(id.to_string());
        call.args(["/usr/bin/hotdesk", "set-hostname"]).arg(id.hostname());
        run("name the guest", call).map(drop)
    }

    /// Has a guest stand still, with nobody connected to its agent, and nobody who can be until it goes on.
    fn hold(&self, folder: &Folder) -> EngineResult<State> {
        let Some(state) = self.state_of(folder.id)? else { return Err(EngineError::Absent) };
        let agent = match slots::held(folder)? {
            Some(slot) => {
                network::hold_off(&self.config.network, slot)?;
                Some(network::agent(&self.config.network, slot))
            }
            None => None,
        };
        if state.status != "paused" {
            // While it runs, so that its kernel lets go of its ends; those that stand with the guest are saved half open.
            if let Some(agent) = agent {
                super::cut_connections(agent)?;
                self.await_hangup(folder.id, agent);
            }
            let mut pause = self.runtime.call();
            pause.arg("pause").arg(folder.id.to_string());
            run("hold the guest", pause)?;
        }
        agent.map_or(Ok(()), super::cut_connections)?;
        Ok(state)
    }

    /// Waits until the guest's kernel has taken in that its agent's connections ended.
    fn await_hangup(&self, id: ComputerId, agent: SocketAddr) {
        let mut call = self.runtime.call();
        call.arg("exec").arg(id.to_string());
        call.args(["/usr/bin/hotdesk", "await-hangup"]).arg(agent.port().to_string());
        if let Err(error) = run("see that the guest's kernel knows of the end", call) {
            // A guest without room for another process, or with the agent of an earlier version: as good as a guess can be.
            tracing::warn!(computer = %id, %error, "its memory may not come back");
            std::thread::sleep(UNSEEN);
        }
    }

    /// Saves the memory of a guest that stands still, and goes on standing.
    fn checkpoint(&self, folder: &Folder, to: &Path) -> EngineResult<()> {
        let mut save = self.runtime.call();
        save.args([
            "checkpoint",
            "--leave-running",
            "--compression",
            "none",
            "--exclude-committed-zero-pages",
        ]);
        save.arg("--image-path").arg(to).arg(folder.id.to_string());
        let (status, _, complaint) = run_patiently("save the guest's memory", &mut save, None, TIMEOUT)?;
        command::judge("save the guest's memory", status, &complaint)
    }

    /// What saved memory of this guest needs again, but for its parts.
    fn manifest(&self, folder: &Folder, state: &State) -> EngineResult<Manifest> {
        let host_boot = process::boot_id().map_err(host_error("seal the saved memory", &folder.path))?;
        let (runtime, slot, hostname) =
            (self.runtime.version()?, slots::held(folder)?, Some(folder.id.hostname()));
        let image = state.annotations.get(oci::IMAGE).map_or_else(|| self.config.image.clone(), Into::into);
        Ok(Manifest { host_boot, runtime, image, hostname, slot, parts: Vec::new() })
    }

    /// Lets a guest go on, also one that was never held; what was saved of it counts no more before it does.
    fn thaw(&self, folder: &Folder) -> EngineResult<()> {
        trash::remove_tree(&folder.fresh_memory())?;
        let mut thaw = self.runtime.call();
        thaw.arg("resume").arg(folder.id.to_string());
        if let Err(error) = run("let the guest go on", thaw) {
            // Where what was to hold it failed it never stood, and the runtime has nothing to resume.
            let state = self.state_of(folder.id);
            if !state.is_ok_and(|state| state.is_some_and(|state| state.status == "running")) {
                return Err(error);
            }
        }
        // Nothing of the network's keeps a guest from going on; whoever waited is let in then.
        self.let_in(folder)
    }

    /// Takes back what [`Inner::hold`] did to the guest's clients; for who holds the machine's lock.
    pub(in super::super) fn let_in(&self, folder: &Folder) -> EngineResult<()> {
        slots::held(folder)?.map_or(Ok(()), |slot| network::let_in(&self.config.network, slot))
    }

    /// Takes up a resume whose controller was killed. Memory is as good as before where its guest was made and never ran.
    pub(in super::super) fn take_up(&self, folder: &Folder) -> EngineResult<()> {
        let used = folder.used_memory();
        if !used.exists() {
            return Ok(());
        }
        match self.state_of(folder.id)?.as_ref().map(|state| state.status.as_str()) {
            Some("created") => memory::becomes(&used, &folder.memory()),
            Some("running") => trash::remove_tree(&used),
            Some(_) | None => Ok(()),
        }
    }

    pub(in super::super) fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint> {
        const STEP: &str = "continue from saved memory";
        let Some(saved) = Saved::find(folder)? else { return Err(EngineError::failed(STEP, "it is gone")) };
        let manifest = saved.verify()?;
        let runtime = self.runtime.version()?;
        if runtime != manifest.runtime {
            let detail = format!("it was saved by {}, this is {runtime}", manifest.runtime);
            return Err(EngineError::failed(STEP, detail));
        }
        let config = ContainerConfig { image: manifest.image.clone(), ..self.config.clone() };
        let starter = Starter {
            config: &config,
            agent: &folder.agent(),
            wanted_slot: manifest.slot,
            runtime: &self.runtime,
            held,
        };
        let endpoint = starter.prepare(folder, spec, boot)?;
        let used = folder.used_memory();
        trash::remove_tree(&used)?;
        memory::becomes(&saved.path, &used)?;
        let mut restore = self.runtime.call();
        restore.args(["restore", "--detach", "--image-path"]).arg(&used).arg(folder.id.to_string());
        // Should this controller die, the next one waits for the end of what may still come to its own.
        restore.stdin(held.share().map_err(host_error(STEP, &used))?);
        super::run_where_networks_are_told_apart(STEP, restore, TIMEOUT)?;
        // From here on the guest runs: what cannot be removed is no reason to take it back.
        if let Err(error) = trash::remove_tree(&used) {
            tracing::warn!(computer = %folder.id, %error, "used memory was not removed");
        }
        let another = manifest.hostname.is_some_and(|name| name != folder.id.hostname());
        if another && let Err(error) = self.name_guest(folder.id) {
            tracing::warn!(computer = %folder.id, %error, "a fork has its source's host name");
        }
        Ok(endpoint)
    }
}
