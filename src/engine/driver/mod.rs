//! Steps of every operation that the engines share: locks, preconditions, and order. [`GuestDriver`] is how a
//! guest runs.
//!
//! Lock order: the machine's lock (`state/machine_lock.rs`), the source's before the target's; below it the
//! host's lock.

mod copies;
mod lifecycle;
pub(crate) mod recovery;
mod resize;
mod snapshot_files;
mod suspend;
pub(crate) mod teardown;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::state::evicted;
use crate::state::layout::{Folder, Record, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::state::memory::MemoryManifest;
use crate::{
    Boot, Capabilities, Change, Effect, Endpoint, Engine, EngineError, EngineResult, Extents, MachineSpec,
    Observation, SavedFile, SavedState, Snapshot,
};
use hotdesk_base::ids::ComputerId;

/// How an engine's guests run. A cheap handle. Methods that block run on a thread of their own, under the
/// machine's lock unless they only read.
pub(super) trait GuestDriver: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// [`Engine::name`].
    const NAME: &'static str;

    /// [`Engine::capabilities`].
    fn abilities(&self) -> Capabilities;

    /// The state folder with its machines.
    fn state(&self) -> &StateDir;

    /// Observes a machine that has its disk and no saved memory: `Running` or `Stopped`. Blocks.
    fn observe_guest(&self, folder: &Folder) -> EngineResult<Observation>;

    /// Whether a machine runs and is not paused. Blocks.
    fn is_executing(&self, folder: &Folder) -> EngineResult<bool>;

    /// Unblocks the clients of a machine's agent, in case a controller died while it blocked them. Blocks.
    fn allow_agent_clients(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// Boots a machine after [`GuestDriver::sweep`]. On error, parts of the boot may be left. Blocks.
    fn boot(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        lock: &MachineLock,
    ) -> EngineResult<Endpoint>;

    /// Resizes a running machine. On error it is as `before`. Blocks.
    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect>;

    /// Copies the disk of a running or stopped machine at one moment. The copy is named `fresh` until it is
    /// complete, then `to`. Blocks.
    fn copy_disk(&self, source: &Folder, fresh: &Path, to: &Path) -> EngineResult<()>;

    /// Pauses a guest, saves its memory to the folder `memory`, copies its disk, and unpauses it whatever the
    /// outcome. The caller seals the memory. Blocks.
    fn save_with_disk(
        &self,
        source: &Folder,
        memory: &Path,
        fresh: &Path,
        to: &Path,
    ) -> EngineResult<MemoryManifest>;

    /// Pauses a guest and saves its memory, labelled with `generation`. On success it stays paused; on error
    /// it continues. Blocks.
    fn save(&self, folder: &Folder, generation: u64) -> EngineResult<()>;

    /// Repairs an interrupted resume, after its controller was killed. Blocks.
    fn recover_resume(&self, _folder: &Folder) -> EngineResult<()> {
        Ok(())
    }

    /// Continues a machine that does not run from its saved memory. Blocks.
    fn restore(
        &self,
        folder: &Folder,
        spec: &MachineSpec,
        boot: &Boot,
        lock: &MachineLock,
    ) -> EngineResult<Endpoint>;

    /// Undoes a failed [`GuestDriver::restore`]. If the guest did not run, its saved memory is valid again.
    fn undo_restore(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;

    /// Ends a machine's processes (the guest gets `grace` to shut down) and releases what its boot took.
    fn halt(&self, folder: &Folder, grace: Duration) -> impl Future<Output = EngineResult<()>> + Send;

    /// Releases what a boot took, complete or not.
    fn sweep(&self, folder: &Folder) -> impl Future<Output = EngineResult<()>> + Send;

    /// [`Engine::wait_stopped`]. First unpauses a guest that a dead controller left paused.
    fn wait_ended(&self, id: ComputerId) -> impl Future<Output = EngineResult<()>> + Send;

    /// Runs a blocking step on its own thread. It completes even if the caller is dropped.
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

/// The outcome of a step for which a guest was paused: an error if the guest could not be unpaused.
pub(super) fn after_unpause<T>(
    folder: &Folder,
    done: EngineResult<T>,
    unpaused: EngineResult<()>,
) -> EngineResult<T> {
    match (done, unpaused) {
        (Ok(done), unpaused) => unpaused.map(|()| done),
        (Err(error), unpaused) => {
            if let Err(paused) = unpaused {
                tracing::warn!(computer = %folder.id, error = %paused, "a guest stays paused after a failed step");
            }
            Err(error)
        }
    }
}

#[async_trait]
impl<M: GuestDriver> Engine for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn capabilities(&self) -> Capabilities {
        self.abilities()
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        lifecycle::create(self, spec).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        lifecycle::start(self, spec, boot).await
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        lifecycle::stop(self, id, grace).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        lifecycle::destroy(self, id).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        self.blocking(move |engine| lifecycle::observe(engine, id)).await
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.blocking(|engine| engine.state().list()).await
    }

    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()> {
        self.wait_ended(id).await
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        suspend::suspend(self, id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        suspend::resume(self, spec, boot).await
    }

    async fn discard_memory(&self, id: ComputerId) -> EngineResult<()> {
        suspend::discard(self, id).await
    }

    async fn saved_state(&self, id: ComputerId) -> EngineResult<Option<SavedState>> {
        self.blocking(move |engine| evicted::saved(&engine.state().folder(id))).await
    }

    async fn read_saved(&self, id: ComputerId, file: &str, from: u64, most: usize) -> EngineResult<Extents> {
        let file = file.to_owned();
        self.blocking(move |engine| evicted::read(&engine.state().folder(id), &file, from, most)).await
    }

    async fn evict(&self, id: ComputerId) -> EngineResult<()> {
        lifecycle::with_lock(self, id, move |engine, folder| {
            evicted::evict(folder, || lifecycle::observe(engine, id))
        })
        .await
    }

    async fn write_saved(&self, id: ComputerId, file: &SavedFile, data: Extents) -> EngineResult<()> {
        let file = file.clone();
        self.blocking(move |engine| evicted::write(&engine.state().folder(id), &file, &data)).await
    }

    async fn finish_fetch(&self, id: ComputerId, with_memory: bool) -> EngineResult<()> {
        lifecycle::with_lock(self, id, move |_, folder| evicted::finish_fetch(folder, with_memory)).await
    }

    async fn sync_fetched(&self, id: ComputerId) -> EngineResult<()> {
        lifecycle::with_lock(self, id, |_, folder| evicted::sync_fetched(folder)).await
    }

    async fn resize(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        lifecycle::with_lock(self, id, move |engine, folder| resize::change(engine, folder, change)).await
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
        copies::take_snapshot(self, id, snapshot, memory).await
    }

    async fn rollback(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        copies::roll_back(self, id, snapshot).await
    }

    async fn remove_snapshot(&self, id: ComputerId, snapshot: Uuid) -> EngineResult<()> {
        copies::remove_snapshot(self, id, snapshot).await
    }

    async fn snapshots(&self, id: ComputerId) -> EngineResult<Vec<Uuid>> {
        self.blocking(move |engine| snapshot_files::all(&engine.state().folder(id))).await
    }
}
