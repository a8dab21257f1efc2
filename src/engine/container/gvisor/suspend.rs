//! How is a guest's memory saved and continued?
//!
//! ```text
//!   Running -- pause, checkpoint, seal --> memory.new -- kill, sweep, sync the disk --> memory: Suspended
//!      ^  (an error: unseal, thaw)                                                       |
//!      |------- restore <-- memory.used <------- verify, create, network ----------------|
//! ```
//! The guest stands still from before its memory is read until it is killed, so that memory and disk are of one moment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::boot::Starter;
use super::super::command::{self, host_error, run, run_patiently};
use super::super::config::ContainerConfig;
use super::super::layout::Folder;
use super::super::lock::{self, MachineLock};
use super::super::memory::{self, Manifest, Saved};
use super::super::runtime::State;
use super::super::{ContainerEngine, Inner, away, disk, network, oci, process, slots, trash};
use crate::base::ids::ComputerId;
use crate::engine::{Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation};

/// Saving and reading 16 GiB at the 60 MB/s of a slow disk.
const PATIENCE: Duration = Duration::from_secs(300);

impl ContainerEngine {
    /// See [`Engine::suspend`](crate::engine::Engine::suspend).
    pub(in super::super) async fn keep_memory(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Stopped => {
                return Err(EngineError::failed("save memory", "the machine does not run"));
            }
            Observation::Suspended { .. } => {}
            Observation::Running { generation, .. } => {
                let plan = folder.clone();
                self.blocking(move |inner| inner.save(&plan, generation)).await?;
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
    pub(in super::super) async fn continue_memory(
        &self,
        spec: &MachineSpec,
        boot: &Boot,
    ) -> EngineResult<Endpoint> {
        let (id, folder) = (spec.id, self.inner.state.folder(spec.id));
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        let held = Arc::new(held);
        let plan = folder.clone();
        let seen = self.blocking(move |inner| inner.take_up(&plan).and_then(|()| inner.observe(id)));
        match seen.await? {
            Observation::Absent => return Err(EngineError::Absent),
            Observation::Running { generation, endpoint, .. } if generation == boot.generation => {
                return Ok(endpoint);
            }
            Observation::Running { .. } | Observation::Stopped => {
                return Err(EngineError::failed("continue the machine", "it has no saved memory"));
            }
            Observation::Suspended { .. } => self.settle(&folder).await?,
        }
        self.keep_record(&folder, spec)?;
        let (plan, of, boot, locked) = (folder.clone(), spec.clone(), boot.clone(), Arc::clone(&held));
        let continued = self.blocking(move |inner| inner.restore(&plan, &of, &boot, &locked)).await;
        if continued.is_err() {
            self.undo_restore(&folder).await;
        }
        continued
    }

    /// Takes a failed restore back. Where the guest did not run, its memory is as good as before.
    async fn undo_restore(&self, folder: &Folder) {
        let (plan, id) = (folder.clone(), folder.id);
        let kept = self.blocking(move |inner| {
            let ran = inner.runtime.state(id)?.is_some_and(|state| state.status == "running");
            inner.runtime.delete(id)?;
            let used = plan.used_memory();
            if used.exists() && !ran { memory::becomes(&used, &plan.memory()) } else { Ok(()) }
        });
        let undone = match kept.await {
            Ok(()) => self.sweep(folder).await,
            Err(error) => Err(error),
        };
        if let Err(left) = undone {
            tracing::warn!(computer = %folder.id, error = %left, "a failed resume left something behind");
        }
    }

    /// See [`Engine::discard_memory`](crate::engine::Engine::discard_memory).
    pub(in super::super) async fn drop_memory(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        let seen = self.blocking(move |inner| inner.observe(id)).await?;
        if !matches!(seen, Observation::Suspended { .. }) {
            return Ok(());
        }
        if away::generation(&folder)?.is_some() {
            return Err(EngineError::failed("drop the memory", "its disk is in storage: fetch that first"));
        }
        self.settle(&folder).await?;
        self.blocking(move |inner| memory::discard(&inner.state, &folder)).await
    }

    /// Lets a guest go on that a suspend of a controller which died left standing.
    pub(in super::super) async fn thaw_abandoned(&self, id: ComputerId) -> EngineResult<()> {
        let folder = self.inner.state.folder(id);
        let Some(_held) = lock::machine(&folder).await? else { return Ok(()) };
        self.blocking(move |inner| {
            let stands = inner.state_of(id)?.is_some_and(|state| state.status == "paused");
            if stands && Saved::find(&folder)?.is_none() { inner.thaw(&folder) } else { Ok(()) }
        })
        .await
    }
}

impl Inner {
    /// Saves a guest's memory. On success it stands still, on error it goes on.
    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        disk::check_reserve(&folder.path)?;
        let saved = self.save_standing(folder, generation);
        if saved.is_err()
            && let Err(error) = self.thaw(folder)
        {
            tracing::warn!(computer = %folder.id, %error, "a guest stands still after a suspend that failed");
        }
        saved
    }

    fn save_standing(&self, folder: &Folder, generation: u64) -> EngineResult<()> {
        let fresh = memory::fresh(folder)?;
        let state = self.hold(folder)?;
        self.checkpoint(folder, &fresh)?;
        let manifest = self.manifest(folder, &state)?;
        memory::seal(&fresh, generation, |parts| Manifest { parts, ..manifest })
    }

    /// Has a guest stand still, with nobody connected to its agent.
    pub(super) fn hold(&self, folder: &Folder) -> EngineResult<State> {
        let Some(state) = self.state_of(folder.id)? else { return Err(EngineError::Absent) };
        if state.status != "paused" {
            let mut pause = self.runtime.call();
            pause.arg("pause").arg(folder.id.to_string());
            run("hold the guest", pause)?;
        }
        if let Some(slot) = slots::held(folder)? {
            super::cut_connections(network::agent(&self.config.network, slot))?;
        }
        Ok(state)
    }

    /// Saves the memory of a guest that stands still, and goes on standing.
    pub(super) fn checkpoint(&self, folder: &Folder, to: &Path) -> EngineResult<()> {
        let mut save = self.runtime.call();
        save.args([
            "checkpoint",
            "--leave-running",
            "--compression",
            "none",
            "--exclude-committed-zero-pages",
        ]);
        save.arg("--image-path").arg(to).arg(folder.id.to_string());
        let (status, _, complaint) = run_patiently("save the guest's memory", &mut save, None, PATIENCE)?;
        command::judge("save the guest's memory", status, &complaint)
    }

    /// What saved memory of this guest needs again, but for its parts.
    pub(super) fn manifest(&self, folder: &Folder, state: &State) -> EngineResult<Manifest> {
        let host_boot = process::boot_id().map_err(host_error("seal the saved memory", &folder.path))?;
        let (runtime, slot, hostname) =
            (self.runtime.version()?, slots::held(folder)?, Some(folder.id.hostname()));
        let image = state.annotations.get(oci::IMAGE).map_or_else(|| self.config.image.clone(), Into::into);
        Ok(Manifest { host_boot, runtime, image, hostname, slot, parts: Vec::new() })
    }

    /// Lets a guest go on; what was saved of it counts no more before it does.
    pub(super) fn thaw(&self, folder: &Folder) -> EngineResult<()> {
        trash::remove_tree(&folder.fresh_memory())?;
        let mut thaw = self.runtime.call();
        thaw.arg("resume").arg(folder.id.to_string());
        run("let the guest go on", thaw).map(drop)
    }

    /// Takes up a resume whose controller was killed. Memory is as good as before where its guest was made and never ran.
    fn take_up(&self, folder: &Folder) -> EngineResult<()> {
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

    fn restore(
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
        super::run_where_networks_are_told_apart(STEP, restore, PATIENCE)?;
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
