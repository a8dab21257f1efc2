//! Download and verification of a saved state.
//!
//! The checksum of each part is verified before any of its bytes are used. A difference is `Damaged`, and the
//! computer does not boot.

use std::time::Duration;

use futures_util::{TryStreamExt, stream};

use super::{StateArchive, label, place};
use hotdesk_base::secret::sealing::{SEALED_OVERHEAD, SealingKey};
use hotdesk_engine::{EngineError, EngineResult, Extents, SavedFile};
use hotdesk_objects::{
    Label, MANIFEST_BYTES, Manifest, ManifestFile, ObjectError, Part, STORED_PART_BYTES, unpack,
};
use hotdesk_store::fleet::saved_state::saved_copies::SavedCopy;

/// Parts that are fetched concurrently, so that one is written while another is awaited.
const PARTS_AT_ONCE: usize = 4;
/// Attempts for each object, and the pause between them. They are few because a client waits.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);

const STEP: &str = "fetch the saved state";

impl StateArchive {
    /// Restores a computer's state on this host, or only its disk when `with_memory` is false.
    ///
    /// # Errors
    /// `Damaged` when a part is missing or differs from what was written; `Failed` when the object store is
    /// unreachable; or the engine's error. The state stays in object storage.
    pub async fn fetch(&self, copy: &SavedCopy, with_memory: bool) -> EngineResult<()> {
        let turn = self.fetches.acquire().await;
        let _turn = turn.map_err(|error| EngineError::failed(STEP, error))?;
        let (id, label) = (copy.computer, label(copy));
        let manifest = self.manifest(copy).await?;
        let engine = self.engine_of(id).await;
        if manifest.engine != engine.map_err(|error| EngineError::failed(STEP, format!("{error:#}")))? {
            let detail = format!("it was saved by the engine {}", manifest.engine);
            return Err(EngineError::failed(STEP, detail));
        }
        // Remove the remains of an earlier attempt.
        self.engine.evict(id).await?;
        let files: Vec<&ManifestFile> =
            manifest.files.iter().filter(|file| file.disk || with_memory).collect();
        for file in &files {
            self.engine.write_saved(id, &saved_file(file), Extents::default()).await?;
        }
        let mut parts = Vec::new();
        for file in &files {
            parts.extend(file.parts.iter().map(|part| (saved_file(file), part.clone())));
        }
        stream::iter(parts.into_iter().map(Ok))
            .try_for_each_concurrent(PARTS_AT_ONCE, |(file, part)| async move {
                let stored = self.get(&label, &part.name(), STORED_PART_BYTES).await?;
                let bytes = unpacked(stored, &part, copy).await?;
                self.engine.write_saved(id, &file, Extents { places: part.places, bytes }).await
            })
            .await?;
        self.engine.finish_fetch(id, with_memory).await
    }

    /// Reads a complete copy back to check that it can be fetched.
    ///
    /// # Errors
    /// The errors of [`Self::fetch`].
    pub async fn verify(&self, copy: &SavedCopy) -> EngineResult<()> {
        let turn = self.copies.acquire().await;
        let _turn = turn.map_err(|error| EngineError::failed(STEP, error))?;
        let label = label(copy);
        let manifest = self.manifest(copy).await?;
        for part in manifest.files.iter().flat_map(|file| file.parts.iter()).cloned().collect::<Vec<Part>>() {
            let stored = self.get(&label, &part.name(), STORED_PART_BYTES).await?;
            self.bandwidth.take(stored.len()).await;
            unpacked(stored, &part, copy).await?;
        }
        Ok(())
    }

    async fn manifest(&self, copy: &SavedCopy) -> EngineResult<Manifest> {
        let known = copy.manifest.as_deref().unwrap_or_default();
        let text = self.get(&label(copy), Manifest::NAME, MANIFEST_BYTES).await?;
        let text = opened(copy.key.as_ref(), &label(copy), Manifest::NAME, text)?;
        Manifest::read(&text, known).map_err(|error| EngineError::Damaged(error.into()))
    }

    async fn get(&self, label: &Label, name: &str, most: usize) -> EngineResult<Vec<u8>> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.objects.get(label, name, most + SEALED_OVERHEAD).await {
                Ok(bytes) => return Ok(bytes),
                Err(ObjectError::Missing) => {
                    return Err(EngineError::Damaged(format!("{label}/{name} is not in storage")));
                }
                Err(ObjectError::Failed(error)) if attempts >= ATTEMPTS => {
                    return Err(EngineError::failed(STEP, format!("{name}: {error}")));
                }
                Err(ObjectError::Failed(_)) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Opens, decompresses and verifies a part on a blocking thread.
async fn unpacked(stored: Vec<u8>, part: &Part, copy: &SavedCopy) -> EngineResult<Vec<u8>> {
    let (part, key, label) = (part.clone(), copy.key.clone(), label(copy));
    let unpacked = hotdesk_base::tasks::spawn_blocking(move || {
        let packed = opened(key.as_ref(), &label, &part.name(), stored)?;
        unpack(&packed, &part).map_err(|error| EngineError::Damaged(error.into()))
    });
    unpacked.await.map_err(|error| EngineError::failed(STEP, error))?
}

/// Opens an object of a copy that has a key.
fn opened(key: Option<&SealingKey>, label: &Label, name: &str, stored: Vec<u8>) -> EngineResult<Vec<u8>> {
    match key {
        None => Ok(stored),
        Some(key) => {
            key.open(&place(label, name), stored).map_err(|error| EngineError::Damaged(error.into()))
        }
    }
}

fn saved_file(listed: &ManifestFile) -> SavedFile {
    SavedFile { name: listed.name.clone(), bytes: listed.bytes, allocated: 0, disk: listed.disk }
}
