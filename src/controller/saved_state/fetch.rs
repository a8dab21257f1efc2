//! How does a saved state come back from storage, and is its copy what was written? Every part is summed before any byte of
//! it is used; what differs is `Damaged` and nothing is booted.

use std::time::Duration;

use futures_util::{TryStreamExt, stream};

use super::{Keeper, label};
use hotdesk_engine::{EngineError, EngineResult, Extents, SavedFile};
use hotdesk_objects::{
    Label, Listed, MANIFEST_BYTES, Manifest, ObjectError, Part, STORED_PART_BYTES, unpack,
};
use hotdesk_store::saved::SavedCopy;

/// Parts on their way at once: the store's answer to one is waited for while another is written.
const PARTS_AT_ONCE: usize = 4;
/// Tries at each object, and the pause between them: somebody waits.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);

const STEP: &str = "fetch the saved state";

impl Keeper {
    /// Puts the state of a computer back on its host; the disk alone when its memory is given up.
    ///
    /// # Errors
    /// `Damaged` when a part is missing or not what was written; `Failed` when the store is not there; what the engine
    /// says. The state is in storage still.
    pub async fn fetch(&self, copy: &SavedCopy, with_memory: bool) -> EngineResult<()> {
        let turn = self.fetches.acquire().await;
        let _turn = turn.map_err(|error| EngineError::failed(STEP, error))?;
        let (id, label) = (copy.computer, label(copy));
        let manifest = self.manifest(copy).await?;
        if manifest.engine != self.engine.name() {
            let detail = format!("it was saved by the engine {}", manifest.engine);
            return Err(EngineError::failed(STEP, detail));
        }
        // What an earlier try has left.
        self.engine.evict(id).await?;
        let files: Vec<&Listed> = manifest.files.iter().filter(|file| file.disk || with_memory).collect();
        for file in &files {
            self.engine.write_saved(id, &saved_file(file), Extents::default()).await?;
        }
        let mut parts = Vec::new();
        for file in &files {
            parts.extend(file.parts.iter().map(|part| (saved_file(file), part.clone())));
        }
        stream::iter(parts.into_iter().map(Ok))
            .try_for_each_concurrent(PARTS_AT_ONCE, |(file, part)| {
                let label = &label;
                async move {
                    let stored = self.get(label, &part.name(), STORED_PART_BYTES).await?;
                    let bytes = unpacked(stored, &part).await?;
                    self.engine.write_saved(id, &file, Extents { places: part.places, bytes }).await
                }
            })
            .await?;
        self.engine.arrived(id, with_memory).await
    }

    /// Reads all of a copy back: whether it could be fetched.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn verify(&self, copy: &SavedCopy) -> EngineResult<()> {
        let turn = self.copies.acquire().await;
        let _turn = turn.map_err(|error| EngineError::failed(STEP, error))?;
        let label = label(copy);
        let manifest = self.manifest(copy).await?;
        for part in manifest.files.iter().flat_map(|file| file.parts.iter()).cloned().collect::<Vec<Part>>() {
            let stored = self.get(&label, &part.name(), STORED_PART_BYTES).await?;
            self.pace.take(stored.len()).await;
            unpacked(stored, &part).await?;
        }
        Ok(())
    }

    async fn manifest(&self, copy: &SavedCopy) -> EngineResult<Manifest> {
        let known = copy.manifest.as_deref().unwrap_or_default();
        let text = self.get(&label(copy), Manifest::NAME, MANIFEST_BYTES).await?;
        Manifest::read(&text, known).map_err(EngineError::Damaged)
    }

    async fn get(&self, label: &Label, name: &str, most: usize) -> EngineResult<Vec<u8>> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.objects.get(label, name, most).await {
                Ok(bytes) => return Ok(bytes),
                Err(ObjectError::Missing) => {
                    return Err(EngineError::Damaged(format!("{label}/{name} is not in storage")));
                }
                Err(ObjectError::Failed(error)) if tries >= TRIES => {
                    return Err(EngineError::failed(STEP, format!("{name}: {error}")));
                }
                Err(ObjectError::Failed(_)) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The data of a part, summed on a thread of its own.
async fn unpacked(stored: Vec<u8>, part: &Part) -> EngineResult<Vec<u8>> {
    let part = part.clone();
    let unpacked = tokio::task::spawn_blocking(move || unpack(&stored, &part)).await;
    unpacked.map_err(|error| EngineError::failed(STEP, error))?.map_err(EngineError::Damaged)
}

fn saved_file(listed: &Listed) -> SavedFile {
    SavedFile { name: listed.name.clone(), bytes: listed.bytes, spent: 0, disk: listed.disk }
}
