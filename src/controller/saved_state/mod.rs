//! Who keeps copies of suspended computers' states? The keeper: it carries them between the engine and the object store,
//! part by part, and knows neither what is in the files nor whose turn it is; the computers' runners say when.

mod copy;
mod fetch;
mod pace;
mod sweep;

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};

use self::pace::Pace;
use super::config::{StorageSettings, When};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::Engine;
use hotdesk_objects::{Label, Objects, Settings};
use hotdesk_store::Store;
use hotdesk_store::saved::SavedCopy;

/// States that are copied or read back at once: each takes a core for its sums.
const COPIES_AT_ONCE: usize = 2;
/// States that are fetched at once: somebody waits for each.
const FETCHES_AT_ONCE: usize = 4;
const MIB: u64 = 1 << 20;

/// What carries copies to the object store and back.
pub struct Keeper {
    objects: Objects,
    engine: Arc<dyn Engine>,
    store: Store,
    when: When,
    /// Bytes of saved states that may stay on the host; `None` is all of them.
    quota: Option<u64>,
    region: Option<String>,
    pace: Pace,
    copies: Semaphore,
    fetches: Semaphore,
    changed: Notify,
}

impl Keeper {
    /// The keeper of a configuration; `None` where that names no store, or the engine's states cannot leave it.
    ///
    /// # Errors
    /// When the store cannot be opened as it is configured.
    pub async fn open(
        settings: &StorageSettings,
        engine: &Arc<dyn Engine>,
        store: &Store,
    ) -> Result<Option<Self>> {
        let objects = match (&settings.objects, settings.url.is_empty()) {
            (Some(given), _) => given.clone(),
            (None, true) => return Ok(None),
            (None, false) => {
                let place = Settings {
                    url: settings.url.clone(),
                    endpoint: settings.endpoint.clone(),
                    region: settings.region.clone(),
                };
                let file =
                    Some(settings.credentials_file.as_path()).filter(|file| !file.as_os_str().is_empty());
                Objects::open(&place, file)
                    .map_err(|why| Error::internal(format!("configuration: storage: {why}")))?
            }
        };
        if !engine.capabilities().evict {
            tracing::info!(
                engine = engine.name(),
                "nothing is copied to storage: this engine saves no memory"
            );
            return Ok(None);
        }
        // Controllers that share a store tell their objects apart by this.
        let name = store.keep("storage_namespace", || uuid::Uuid::new_v4().simple().to_string()).await?;
        Ok(Some(Self {
            objects: objects.within(&name),
            engine: Arc::clone(engine),
            store: store.clone(),
            when: settings.when,
            quota: settings.local_quota_mb.map(|mib| mib.saturating_mul(MIB)),
            region: Some(settings.region.clone()).filter(|region| !region.is_empty()),
            pace: Pace::new(settings.bandwidth_mbps),
            copies: Semaphore::new(COPIES_AT_ONCE),
            fetches: Semaphore::new(FETCHES_AT_ONCE),
            changed: Notify::new(),
        }))
    }

    /// Whether a suspend is done only when its copy is whole.
    pub fn copies_first(&self) -> bool {
        self.when == When::BeforeRelease
    }

    /// Where copies go, as clients are told.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Has the sweep and the quota look again: something was copied, or is not needed any more.
    pub fn look_again(&self) {
        self.changed.notify_one();
    }
}

fn label(copy: &SavedCopy) -> Label {
    Label { computer: copy.computer, generation: copy.generation, operation: copy.operation }
}

/// The controller cannot copy or fetch a computer's state.
fn no_longer_saved(computer: ComputerId) -> String {
    format!("computer {computer} has no saved state here")
}
