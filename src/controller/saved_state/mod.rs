//! Copies of suspended computers' saved states in object storage.
//!
//! The archive copies data between the engine and the object store in parts. It does not interpret the files.
//! The computers' runners decide when.

mod bandwidth;
mod copy;
mod fetch;
mod sweep;

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};

use self::bandwidth::Bandwidth;
use crate::config::{StorageSettings, SuspendCompletion};
use hotdesk_base::ids::{ComputerId, ComputerRef};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::Engine;
use hotdesk_objects::{Label, ObjectStoreSettings, Objects};
use hotdesk_store::Store;
use hotdesk_store::fleet::saved_state::saved_copies::SavedCopy;

/// States that are copied or verified concurrently. Each needs a core for its checksums.
const COPIES_AT_ONCE: usize = 2;
/// States that are fetched concurrently. A client waits for each.
const FETCHES_AT_ONCE: usize = 4;
const MIB: u64 = 1 << 20;

/// Copies saved states to the object store and back.
pub struct StateArchive {
    objects: Objects,
    engine: Arc<dyn Engine>,
    store: Store,
    when: SuspendCompletion,
    seals: bool,
    /// Bytes of saved states that may stay on the host; `None` is no bound.
    quota: Option<u64>,
    region: Option<String>,
    bandwidth: Bandwidth,
    copies: Semaphore,
    fetches: Semaphore,
    changed: Notify,
}

impl StateArchive {
    /// Opens the configured object store. `None` when none is configured, or when the engine's states cannot
    /// leave the host.
    ///
    /// # Errors
    /// `Internal` when the configuration is invalid or the database fails.
    pub async fn open(
        settings: &StorageSettings,
        engine: &Arc<dyn Engine>,
        store: &Store,
    ) -> Result<Option<Self>> {
        let objects = match (&settings.objects, settings.url.is_empty()) {
            (Some(given), _) => given.clone(),
            (None, true) => return Ok(None),
            (None, false) => {
                let target = ObjectStoreSettings {
                    url: settings.url.clone(),
                    endpoint: settings.endpoint.clone(),
                    region: settings.region.clone(),
                };
                let file =
                    Some(settings.credentials_file.as_path()).filter(|file| !file.as_os_str().is_empty());
                Objects::open(&target, file)
                    .map_err(|error| Error::internal(format!("configuration: storage: {error:#}")))?
            }
        };
        if !engine.offers().all().any(|offer| offer.capabilities.evict) {
            tracing::info!(
                engine = engine.offers().default().engine,
                "saved states are not copied to object storage: this engine saves no memory"
            );
            return Ok(None);
        }
        // Prefix of this controller's objects, because several controllers may share a bucket.
        let name = store
            .get_or_create_value("storage_namespace", || uuid::Uuid::new_v4().simple().to_string())
            .await?;
        Ok(Some(Self {
            objects: objects.within(&name),
            engine: Arc::clone(engine),
            store: store.clone(),
            when: settings.when,
            seals: settings.encrypt,
            quota: settings.local_quota_mb.map(|mib| mib.saturating_mul(MIB)),
            region: Some(settings.region.clone()).filter(|region| !region.is_empty()),
            bandwidth: Bandwidth::new(settings.bandwidth_mbps),
            copies: Semaphore::new(COPIES_AT_ONCE),
            fetches: Semaphore::new(FETCHES_AT_ONCE),
            changed: Notify::new(),
        }))
    }

    /// Whether a suspend completes only when its copy is complete.
    pub fn copies_first(&self) -> bool {
        self.when == SuspendCompletion::BeforeRelease
    }

    /// Whether new copies are sealed with a key of their workspace.
    pub fn seals(&self) -> bool {
        self.seals
    }

    /// Region of the object store, for API records.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Returns the name of the engine of a computer. Only the same one reads its saved state.
    async fn engine_of(&self, computer: ComputerId) -> Result<&'static str> {
        let row = self.store.computer(&ComputerRef::Id(computer)).await?;
        let row = row.ok_or_else(|| Error::internal(not_saved(computer)))?;
        let offer = self.engine.offers().find(row.isolation);
        let offer = offer.ok_or_else(|| {
            Error::internal(format!("this host does not offer isolation {}", row.isolation.name()))
        });
        offer.map(|offer| offer.engine)
    }

    /// Wakes [`Self::run`] because a copy was completed or is not needed any more.
    pub fn wake(&self) {
        self.changed.notify_one();
    }
}

fn label(copy: &SavedCopy) -> Label {
    Label { computer: copy.computer, generation: copy.generation, operation: copy.operation }
}

/// Place for which an object of a copy is sealed: the copy and the object's name, which contains the part's number. A
/// part therefore opens in its own place only; a missing one is noticed by the sealed manifest.
fn place(label: &Label, name: &str) -> String {
    format!("saved state {label}/{name}")
}

/// Error text for a computer without a saved state on this host.
fn not_saved(computer: ComputerId) -> String {
    format!("computer {computer} has no saved state on this host")
}
