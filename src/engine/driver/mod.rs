//! Steps of every operation that the engines share: locks, preconditions, and order. [`GuestDriver`] is how
//! an engine's guests run.
//!
//! Lock order: the machine's lock (`state/machine_lock.rs`), the source's before the target's; below it the
//! host's lock.

mod boot_inputs;
mod capacity;
mod change;
pub(crate) mod checks;
mod context;
mod copies;
mod encryption;
mod guest;
pub(crate) mod layers;
mod lifecycle;
pub(crate) mod recovery;
mod snapshot_files;
mod suspend;
pub(crate) mod teardown;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use uuid::Uuid;

pub(crate) use crate::driver::change::egress::start_proxy;
pub(crate) use crate::driver::change::resize::set_bandwidth;
pub(crate) use crate::driver::context::{HostContext, image_init_args};
pub(crate) use crate::driver::guest::{
    BootDependencies, GuestDriver, GuestMemory, GuestShutdown, MachineBoot,
};
use crate::state::layout::Folder;
use crate::state::{evicted, wake_reserve};
use crate::{
    Boot, Change, DiskWatch, Effect, Endpoint, Engine, EngineFindings, EngineResult, Extents, FileKey,
    LeftoverRecord, MachineSpec, Observation, Offers, OpenMode, SavedFile, SavedState, Snapshot,
};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

/// Shares an opened engine. One that will run guests first recovers what a killed controller left.
pub(super) fn share(engine: impl GuestDriver, mode: OpenMode) -> EngineResult<Arc<dyn Engine>> {
    if mode == OpenMode::Run {
        recovery::recover_interrupted(&engine)?;
        if let Err(error) = layers::remove_unfinished(engine.state()) {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not remove unfinished layers; they cost only space"
            );
        }
        if let Err(error) = layers::bases::remove_unfinished(engine.state()) {
            tracing::warn!(
                error = format_args!("{error:#}"),
                "could not remove what interrupted imports of images left; it costs only space"
            );
        }
        wake_reserve::keep(engine.state());
    }
    Ok(Arc::new(engine))
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
                tracing::warn!(computer = %folder.id, error = format_args!("{paused:#}"), "a guest stays paused after a failed step");
            }
            Err(error)
        }
    }
}

/// Logs how long a guest stood still while its memory was saved. The suspend, fork or snapshot takes longer.
pub(super) fn log_pause(folder: &Folder, since: Instant) {
    let ms = since.elapsed().as_secs_f64() * 1e3;
    tracing::info!(computer = %folder.id, ms, "a guest stood still while its memory was saved");
}

#[async_trait]
impl<M: GuestDriver> Engine for M {
    fn offers(&self) -> &Offers {
        &self.host().offers
    }

    async fn boot_inputs(&self, isolation: Isolation) -> EngineResult<String> {
        self.blocking(move |engine| boot_inputs::digest(engine, isolation)).await
    }

    async fn image_id(&self) -> EngineResult<String> {
        self.blocking(boot_inputs::image).await
    }

    async fn add_keys(&self, keys: &[FileKey]) -> EngineResult<()> {
        let keys = keys.to_vec();
        self.blocking(move |engine| encryption::add_keys(engine, &keys)).await
    }

    async fn encrypt(&self, id: ComputerId, key: &FileKey) -> EngineResult<()> {
        let key = key.clone();
        self.blocking(move |engine| encryption::encrypt(engine, id, &key)).await
    }

    async fn remove_unused_keys(&self) -> EngineResult<()> {
        self.blocking(encryption::remove_unused_keys).await
    }

    async fn create(&self, spec: &MachineSpec) -> EngineResult<()> {
        lifecycle::create(self, &self.host().offers.effective(spec)?).await
    }

    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        lifecycle::start(self, &self.host().offers.effective(spec)?, boot).await
    }

    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        lifecycle::stop(self, id, grace).await
    }

    async fn destroy(&self, id: ComputerId) -> EngineResult<()> {
        lifecycle::destroy(self, id).await
    }

    async fn observe(&self, id: ComputerId) -> EngineResult<Observation> {
        let guard = &self.host().guard;
        if let Some(seen) = guard.seen_before_freeze(id) {
            return Ok(seen);
        }
        let seen = self.blocking(move |engine| lifecycle::observe(engine, id)).await?;
        guard.note_observation(id, &seen);
        Ok(seen)
    }

    async fn list(&self) -> EngineResult<Vec<ComputerId>> {
        self.blocking(|engine| engine.state().list()).await
    }

    async fn check_capacity(&self, id: ComputerId, rollback_to: Option<Uuid>) -> EngineResult<()> {
        self.blocking(move |engine| lifecycle::check_capacity(engine, id, rollback_to)).await
    }

    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()> {
        lifecycle::wait_stopped(self, id).await
    }

    async fn watch_disk(&self) -> EngineResult<DiskWatch> {
        self.blocking(capacity::disk_guard::look).await
    }

    fn is_frozen(&self, id: ComputerId) -> bool {
        self.host().guard.is_frozen(id)
    }

    fn take_killed(&self, id: ComputerId) -> bool {
        self.host().guard.take_killed(id)
    }

    async fn maintain(&self) -> EngineResult<()> {
        self.blocking(|engine| {
            let network = engine.host().maintain_network();
            let proxies = change::egress::revive(engine.host());
            engine.maintain().and(network).and(proxies)
        })
        .await
    }

    async fn suspend(&self, id: ComputerId) -> EngineResult<()> {
        suspend::suspend(self, id).await
    }

    async fn resume(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint> {
        suspend::resume(self, &self.host().offers.effective(spec)?, boot).await
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
        lifecycle::with_lock(self, id, move |engine, folder| change::resize::change(engine, folder, change))
            .await
    }

    async fn set_egress(&self, id: ComputerId, policy: Option<&EgressPolicy>) -> EngineResult<()> {
        let policy = policy.cloned();
        let set = move |engine: &M, folder: &Folder| change::egress::set(engine, folder, policy.as_ref());
        lifecycle::with_lock(self, id, set).await
    }

    async fn copy_disk(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        copies::copy(self, from, &self.host().offers.effective(to)?).await
    }

    async fn fork(&self, from: ComputerId, to: &MachineSpec) -> EngineResult<()> {
        copies::fork(self, from, &self.host().offers.effective(to)?).await
    }

    async fn launch(&self, from: ComputerId, snapshot: Uuid, to: &MachineSpec) -> EngineResult<()> {
        copies::launch(self, from, snapshot, &self.host().offers.effective(to)?).await
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

    async fn keep_layer(&self, id: ComputerId, layer: LayerId) -> EngineResult<u64> {
        layers::keep(self, id, layer).await
    }

    async fn base_id(&self, name: &str) -> EngineResult<Option<String>> {
        let name = name.to_owned();
        self.blocking(move |engine| layers::bases::id(engine.state(), &name)).await
    }

    async fn keep_base(&self, name: &str, id: &str, layer: LayerId) -> EngineResult<u64> {
        let (name, id) = (name.to_owned(), id.to_owned());
        self.blocking(move |engine| layers::bases::keep(engine, &name, &id, layer)).await
    }

    async fn keep_programs(
        &self,
        list: &str,
        below: &[LayerId],
        layer: LayerId,
    ) -> EngineResult<Option<u64>> {
        let (list, below) = (list.to_owned(), below.to_vec());
        self.blocking(move |engine| layers::programs::keep(engine, &list, &below, layer)).await
    }

    async fn remove_layer(&self, layer: LayerId) -> EngineResult<()> {
        self.blocking(move |engine| layers::remove(engine, layer)).await
    }

    async fn layers(&self) -> EngineResult<Vec<LayerId>> {
        self.blocking(|engine| layers::all(engine.state())).await
    }

    async fn check_host(&self, thorough: bool) -> EngineResult<Vec<EngineFindings>> {
        self.blocking(move |engine| Ok(GuestDriver::check_host(engine, thorough))).await
    }

    async fn find_leftovers(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        let owned = owned.clone();
        self.blocking(move |engine| GuestDriver::find_leftovers(engine, &owned)).await
    }
}
