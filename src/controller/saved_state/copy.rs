//! Upload of a saved state: file by file in parts, the manifest last.
//!
//! Failed parts are retried until the store accepts them or the copy is cancelled. The state is safe on the
//! host meanwhile.

use std::time::Duration;

use bytes::Bytes;

use super::{StateArchive, label, not_saved, place};
use hotdesk_base::backoff::Backoff;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_base::tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_objects::{Label, Manifest, ManifestFile, PART_BYTES, Part, checksum, pack};
use hotdesk_store::fleet::saved_state::saved_copies::SavedCopy;

/// Shortest and longest pause between two attempts to store a part.
const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(60);

impl StateArchive {
    /// Copies a suspended computer's state and returns the checksum of the manifest. The caller ensures that
    /// the computer is not woken meanwhile.
    ///
    /// Cancel-safe: everything that was written carries the copy's label.
    ///
    /// # Errors
    /// `Internal` when the state cannot be read. Failures of the object store are retried without end.
    pub async fn copy(&self, copy: &SavedCopy) -> Result<String> {
        let _turn = self.copies.acquire().await.map_err(Error::internal)?;
        let (id, label) = (copy.computer, label(copy));
        let state = self.engine.saved_state(id).await.map_err(Error::internal)?;
        let state = state.filter(|state| state.generation == copy.generation);
        let state = state.ok_or_else(|| Error::internal(not_saved(id)))?;
        let engine = self.engine_of(id).await?;
        let (mut files, mut number) = (Vec::new(), 0);
        for file in state.files {
            let (mut parts, mut from) = (Vec::new(), 0);
            loop {
                let data = self.engine.read_saved(id, &file.name, from, PART_BYTES).await;
                let data = data.map_err(Error::internal)?;
                let Some(end) = data.end() else { break };
                let key = copy.key.clone();
                let (packed, part) = blocking(move || {
                    let part = Part { number, places: data.places, sha256: checksum(&data.bytes) };
                    let packed = sealed(key.as_ref(), &label, &part.name(), pack(&data.bytes)?)?;
                    Ok((packed, part))
                })
                .await?;
                self.put(&label, &part.name(), packed).await;
                parts.push(part);
                (from, number) = (end, number + 1);
            }
            files.push(ManifestFile { name: file.name, bytes: file.bytes, disk: file.disk, parts });
        }
        let (text, known) = Manifest::new(engine, files).write().map_err(Error::internal)?;
        let key = copy.key.clone();
        let text = blocking(move || sealed(key.as_ref(), &label, Manifest::NAME, text)).await?;
        self.put(&label, Manifest::NAME, text).await;
        Ok(known)
    }

    async fn put(&self, label: &Label, name: &str, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, MAX_PAUSE);
        loop {
            self.bandwidth.take(bytes.len()).await;
            let error = match self.objects.put(label, name, bytes.clone()).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let pause = backoff.after(Duration::ZERO);
            tracing::warn!(
                computer = %label.computer,
                name,
                error = format_args!("{error:#}"),
                ?pause,
                "could not store a part of a saved state; it is retried"
            );
            tokio::time::sleep(pause).await;
        }
    }
}

/// Seals an object of a copy that has a key.
fn sealed(key: Option<&SealingKey>, label: &Label, name: &str, bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    match key {
        None => Ok(bytes),
        Some(key) => key.seal(&place(label, name), &bytes).map_err(std::io::Error::other),
    }
}

/// Checksums, compresses and seals on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    tasks::spawn_blocking(work).await.map_err(Error::internal)?.map_err(Error::internal)
}
