//! How is a saved state copied to storage? File by file in parts, the manifest last. A store that fails is asked again until
//! it takes the part or the copy is called off: the state is safe on the host meanwhile.

use std::time::Duration;

use bytes::Bytes;

use super::{Keeper, label, no_longer_saved};
use hotdesk_base::backoff::Backoff;
use hotdesk_domain::error::{Error, Result};
use hotdesk_objects::{Label, Listed, Manifest, PART_BYTES, Part, pack, sum};
use hotdesk_store::saved::SavedCopy;

/// Pauses between tries at a part.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Keeper {
    /// Copies the state of a suspended computer that nobody wakes meanwhile. The manifest's sum. Cancel-safe: what was
    /// written bears the copy's label.
    ///
    /// # Errors
    /// When the state cannot be read; the store is asked for ever.
    pub async fn copy(&self, copy: &SavedCopy) -> Result<String> {
        let _turn = self.copies.acquire().await.map_err(Error::internal)?;
        let (id, label) = (copy.computer, label(copy));
        let state = self.engine.saved(id).await.map_err(Error::internal)?;
        let state = state.filter(|state| state.generation == copy.generation);
        let state = state.ok_or_else(|| Error::internal(no_longer_saved(id)))?;
        let (mut files, mut number) = (Vec::new(), 0);
        for file in state.files {
            let (mut parts, mut from) = (Vec::new(), 0);
            loop {
                let data = self.engine.read_saved(id, &file.name, from, PART_BYTES).await;
                let data = data.map_err(Error::internal)?;
                let Some(end) = data.end() else { break };
                let (packed, part) = blocking(move || {
                    let part = Part { number, places: data.places, sha256: sum(&data.bytes) };
                    pack(&data.bytes).map(|packed| (packed, part))
                })
                .await?;
                self.put(&label, &part.name(), packed).await;
                parts.push(part);
                (from, number) = (end, number + 1);
            }
            files.push(Listed { name: file.name, bytes: file.bytes, disk: file.disk, parts });
        }
        let (text, known) = Manifest::new(self.engine.name(), files).write().map_err(Error::internal)?;
        self.put(&label, Manifest::NAME, text).await;
        Ok(known)
    }

    async fn put(&self, label: &Label, name: &str, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
        loop {
            self.pace.take(bytes.len()).await;
            let error = match self.objects.put(label, name, bytes.clone()).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let pause = backoff.after(Duration::ZERO);
            tracing::warn!(computer = %label.computer, name, %error, ?pause, "storage does not take a part");
            tokio::time::sleep(pause).await;
        }
    }
}

/// Sums and packs on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)?.map_err(Error::internal)
}
