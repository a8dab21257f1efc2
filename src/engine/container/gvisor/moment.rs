//! How are a guest's memory and disk of one moment copied, while it goes on? For forks, and for snapshots with memory.
//!
//! ```text
//!   pause -- checkpoint -- copy the disk -- resume -- seal the memory
//! ```
//! The guest stands still from before its memory is read until its disk is copied; what it had not written yet goes to the
//! disk with the checkpoint. Memory is linked and not copied where it is needed again: nobody writes to it.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::super::command::{host_error, run};
use super::super::layout::{Folder, Record, private_folder, remove_if_there, sync_folder};
use super::super::memory::{self, Manifest, Saved};
use super::super::{ContainerEngine, Inner, copies, copy, disk, lock, trash};
use crate::base::ids::ComputerId;
use crate::engine::{EngineError, EngineResult, MachineSpec, Observation, Snapshot};

impl ContainerEngine {
    /// [`crate::engine::Engine::fork`]. Holds both machines, the source first, as a copy of the disk alone does.
    pub(in super::super) async fn copy_memory(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        let (source, target) = (self.inner.state.folder(from), self.inner.state.folder(to.id));
        let Some(source_held) = lock::machine(&source).await? else { return Err(EngineError::Absent) };
        let generation = self.running_since(from).await?;
        private_folder(&target.path).map_err(host_error("make the fork's folder", &target.path))?;
        let Some(target_held) = lock::machine(&target).await? else {
            return Err(EngineError::failed("make the fork's folder", "it was destroyed while being made"));
        };
        let spec = to.clone();
        self.blocking(move |inner| {
            let _held = (source_held, target_held);
            if target.is_whole()? && Saved::find(&target)?.is_some() {
                return Ok(());
            }
            copies::check_size(&source, &spec)?;
            disk::check_reserve(&target.path)?;
            target.write_record(&Record::of(&spec))?;
            let fresh = memory::fresh(&target)?;
            link(&source.agent(), &target.agent())?;
            let manifest = inner.moment(&source, &fresh, || {
                copy::disk(&source.disk(), &target.fresh_disk(), &target.disk())
            })?;
            memory::seal(&fresh, generation, |parts| Manifest { parts, ..manifest })?;
            memory::becomes(&fresh, &target.memory())
        })
        .await
    }

    /// [`crate::engine::Engine::snapshot`] with memory. It is whole when its disk has its name.
    pub(in super::super) async fn keep_moment(
        &self,
        id: ComputerId,
        snapshot: Uuid,
    ) -> EngineResult<Snapshot> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        let kept = Kept::of(&folder, snapshot);
        if !kept.is_whole()? {
            let generation = self.running_since(id).await?;
            let making = kept.clone();
            self.blocking(move |inner| {
                let _held = held;
                disk::check_reserve(&folder.path)?;
                copies::room(&folder)?;
                private_folder(&making.memory).map_err(host_error("keep the memory", &making.memory))?;
                link(&folder.agent(), &making.agent)?;
                let manifest = inner.moment(&folder, &making.memory, || {
                    copy::disk(&folder.disk(), &making.fresh, &making.unsealed)
                })?;
                memory::seal(&making.memory, generation, |parts| Manifest { parts, ..manifest })?;
                memory::becomes(&making.unsealed, &making.disk)
            })
            .await?;
        }
        self.blocking(move |_| kept.tell()).await
    }

    /// Since which boot a machine runs.
    async fn running_since(&self, id: ComputerId) -> EngineResult<u64> {
        match self.blocking(move |inner| inner.observe(id)).await? {
            Observation::Absent => Err(EngineError::Absent),
            Observation::Running { generation, .. } => Ok(generation),
            Observation::Stopped | Observation::Suspended { .. } => {
                Err(EngineError::failed("copy memory", "the machine does not run"))
            }
        }
    }
}

impl Inner {
    /// Saves a guest's memory to `path` and calls `copy` for its disk, both while it stands still. It goes on afterwards,
    /// whatever came of it. What remains is to seal the memory.
    fn moment(
        &self,
        folder: &Folder,
        path: &Path,
        copy: impl FnOnce() -> EngineResult<()>,
    ) -> EngineResult<Manifest> {
        let taken = self.hold(folder).and_then(|state| {
            self.checkpoint(folder, path)?;
            let manifest = self.manifest(folder, &state)?;
            copy().map(|()| manifest)
        });
        match (taken, self.thaw(folder)) {
            (Ok(manifest), Ok(())) => Ok(manifest),
            (Ok(_), Err(error)) => Err(error),
            (Err(error), gone_on) => {
                if let Err(stands) = gone_on {
                    tracing::warn!(computer = %folder.id, error = %stands, "a guest stands still after a copy that failed");
                }
                Err(error)
            }
        }
    }

    /// Tells a guest's kernel its host name, which it remembers from the machine that it was. The guest's root may not do
    /// that; the agent's executable, which it cannot replace, may for this once.
    pub(super) fn name_guest(&self, id: ComputerId) -> EngineResult<()> {
        let mut call = self.runtime.call();
        call.args(["exec", "--cap", "CAP_SYS_ADMIN"]).arg(id.to_string());
        call.args(["/usr/bin/hotdesk", "set-hostname"]).arg(id.hostname());
        run("name the guest", call).map(drop)
    }
}

/// Where a snapshot with memory is.
#[derive(Clone, Debug)]
pub(in super::super) struct Kept {
    memory: PathBuf,
    agent: PathBuf,
    fresh: PathBuf,
    /// The disk while the memory is not whole yet.
    unsealed: PathBuf,
    disk: PathBuf,
}

impl Kept {
    pub(in super::super) fn of(folder: &Folder, snapshot: Uuid) -> Self {
        let at = |suffix| folder.snapshot(snapshot, suffix);
        Self {
            memory: at(copies::MEMORY),
            agent: at("agent"),
            fresh: at("new"),
            unsealed: at("unsealed"),
            disk: at(copies::WHOLE),
        }
    }

    fn is_whole(&self) -> EngineResult<bool> {
        self.disk.try_exists().map_err(host_error("look for the snapshot", &self.disk))
    }

    /// Whether it holds memory.
    pub(in super::super) fn has_memory(&self) -> bool {
        self.memory.is_dir()
    }

    /// What it takes on the host.
    fn tell(&self) -> EngineResult<Snapshot> {
        let failed = host_error("look at the snapshot", &self.disk);
        let mut bytes = fs::File::open(&self.disk).and_then(|file| copy::spent(&file)).map_err(&failed)?;
        for entry in fs::read_dir(&self.memory).map_err(&failed)? {
            let file = entry.and_then(|entry| fs::File::open(entry.path())).map_err(&failed)?;
            bytes = bytes.saturating_add(copy::spent(&file).map_err(&failed)?);
        }
        Ok(Snapshot { bytes, memory: true })
    }

    /// Refuses memory that is not as it was written.
    pub(in super::super) fn verify(&self) -> EngineResult<()> {
        Saved { path: self.memory.clone(), generation: 0, settled: true }.verify().map(drop)
    }

    /// Makes the memory that of the machine, whose disk is the snapshot's already.
    pub(in super::super) fn give_back(&self, folder: &Folder) -> EngineResult<()> {
        let back = folder.path.join("memory.back");
        let failed = host_error("give the memory back", &back);
        trash::remove_tree(&back)?;
        private_folder(&back).map_err(&failed)?;
        for entry in fs::read_dir(&self.memory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            fs::hard_link(entry.path(), back.join(entry.file_name())).map_err(&failed)?;
        }
        sync_folder(&back).map_err(&failed)?;
        link(&self.agent, &folder.agent())?;
        memory::becomes(&back, &folder.memory())
    }
}

/// One more name for a file; what had that name before has it no more.
fn link(from: &Path, to: &Path) -> EngineResult<()> {
    remove_if_there(to)
        .and_then(|()| fs::hard_link(from, to))
        .map_err(host_error("link the machine's agent", to))
}
