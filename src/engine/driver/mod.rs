//! What do engines have in common that keep each machine in a folder (`layout.rs`)? The frame of every verb: who works on the
//! machine, what is looked at first, what is there when the verb ends. How a guest runs is each engine's own.

mod copies;
mod kept;
mod life;
mod resize;
mod sleep;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::layout::{Folder, Record, StateDir};
use super::lock::MachineLock;
use super::memory::Manifest;
use super::{
    Boot, Capabilities, Change, Effect, Endpoint, Engine, EngineError, EngineResult, Extents, MachineSpec,
    Observation, SavedFile, SavedState, Snapshot, away,
};
use hotdesk_base::ids::ComputerId;

/// How an engine's guests run. A cheap handle; what blocks is called on a thread of its own, with the machine's lock held unless
/// it only reads.
pub(super) trait Machinery: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// [`Engine::name`].
    const NAME: &'static str;

    /// [`Engine::capabilities`].
    fn abilities(&self) -> Capabilities;

    /// Where its machines are.
    fn state(&self) -> &StateDir;

    /// Whether a machine runs that has its disk and no saved memory: `Running` or `Stopped`. Blocks.
    fn seen(&self, folder: &Folder) -> EngineResult<Observation>;

    /// Whether a machine runs and its guest does not stand still. Blocks.
    fn goes_on(&self, folder: &Folder) -> EngineResult<bool>;

    /// Lets the clients of a machine's agent in that a verb of a controller which died held off. Blocks.
    fn let_in(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// Boots a machine of which nothing runs and nothing is left. On error something may be left. Blocks.
    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint>;

    /// Changes a machine that runs. On error it is as `before`. Blocks.
    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect>;

    /// Copies a machine's disk as it is at one moment, whether it runs or not; the copy is `fresh` until it is whole, then `to`.
    /// Blocks.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()>;

    /// Saves a guest's memory to the folder `memory` and copies its disk, both while it stands still; it goes on afterwards,
    /// whatever came of it. What remains is to seal the memory. Blocks.
    fn moment(&self, source: &Folder, memory: &Path, fresh: &Path, to: &Path) -> EngineResult<Manifest>;

    /// Saves a guest's memory, for the boot that it runs since. On success it stands still, on error it goes on. Blocks.
    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()>;

    /// Takes up a resume whose controller was killed. Blocks.
    fn take_up(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// Lets a machine of which nothing runs go on from its saved memory. Blocks.
    fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        held: &MachineLock,
    ) -> EngineResult<Endpoint>;

    /// Takes a failed [`Machinery::restore`] back; where the guest did not run, its memory is as good as before.
    fn undo_restore(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;

    /// Ends a machine's processes and takes back what its boot took.
    fn halt(&self, folder: &Folder, grace: Duration) -> impl Future<Output = EngineResult<()>> + Send;

    /// Takes back what a boot took, in whatever state it is.
    fn sweep(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;

    /// [`Engine::stopped`]. A guest goes on first that a controller which died left standing.
    fn ended(&self, id: ComputerId) -> impl Future<Output = EngineResult<()>> + Send;

    /// Runs a step that blocks. It runs to its end whatever becomes of the caller.
    fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Self) -> EngineResult<T> + Send + 'static,
    ) -> impl Future<Output = EngineResult<T>> + Send {
        let engine = self.clone();
        async move {
            let done = tokio::task::spawn_blocking(move || step(&engine)).await;
            done.unwrap_or_else(|error| Err(EngineError::failed("finish a step", error)))
        }
    }
}

/// What became of something for which a guest stood still: it is only good if the guest goes on.
pub(super) fn gone_on<T>(
    folder: &Folder,
    done: EngineResult<T>,
    gone_on: EngineResult<()>,
) -> EngineResult<T> {
    match (done, gone_on) {
        (Ok(done), gone_on) => gone_on.map(|()| done),
        (Err(error), gone_on) => {
            if let Err(stands) = gone_on {
                tracing::warn!(computer = %folder.id, error = %stands, "a guest stands still after a step that failed");
            }
            Err(error)
        }
    }
}

#[async_trait]
impl<M: Machinery> Engine for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn capabilities(&self) -> Capabilities {
        self.abilities()
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        life::create(self, spec).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        life::start(self, spec, boot).await
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        life::stop(self, id, grace).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        life::destroy(self, id).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        self.blocking(move |engine| life::look(engine, id)).await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.blocking(|engine| engine.state().list()).await
    }

    async fn stopped(&self, id: ComputerId) -> EngineResult<()> {
        self.ended(id).await
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        sleep::suspend(self, id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        sleep::resume(self, spec, boot).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        sleep::discard(self, id).await
    }

    async fn saved(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        self.blocking(move |engine| away::saved(&engine.state().folder(id))).await
    }

    async fn read_saved(&self, id: ComputerId, file: &str, from: u64, most: usize) -> EngineResult<Extents> {
        let file = file.to_owned();
        self.blocking(move |engine| away::read(&engine.state().folder(id), &file, from, most)).await
    }

    async fn evict(&self, id: ComputerId) -> EngineResult<()> {
        life::held(self, id, move |engine, folder| away::evict(folder, || life::look(engine, id))).await
    }

    async fn write_saved(&self, id: ComputerId, file: &SavedFile, data: Extents) -> EngineResult<()> {
        let file = file.clone();
        self.blocking(move |engine| away::write(&engine.state().folder(id), &file, &data)).await
    }

    async fn arrived(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        life::held(self, id, move |_, folder| away::take(folder, with_memory)).await
    }

    async fn converge(&self, id: ComputerId) -> EngineResult<()> {
        life::held(self, id, |_, folder| away::settle(folder)).await
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        life::held(self, id, move |engine, folder| resize::change(engine, folder, change)).await
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        copies::copy(self, from, to).await
    }

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        copies::fork(self, from, to).await
    }

    async fn launch(&self, from: ComputerId, snapshot: Uuid, to: &MachineSpec) -> EngineResult<()> {
        copies::launch(self, from, snapshot, to).await
    }

    async fn snapshot(&self, id: ComputerId, snapshot: Uuid, memory: bool) -> EngineResult<Snapshot> {
        copies::keep(self, id, snapshot, memory).await
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        copies::roll_back(self, id, snapshot).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        copies::forget(self, id, snapshot).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        self.blocking(move |engine| kept::all(&engine.state().folder(id))).await
    }
}
