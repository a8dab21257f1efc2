//! Pictures of steps: blobs, with their ids in the store.
//!
//! The blob is written before its step and removed after it, so a crash leaves a blob without a record. A
//! sweep removes it after an hour. A record without a blob, after a power cut, loses its picture.

use uuid::Uuid;

use crate::data_dir::blobs::{BlobStore, StepPictureSweep};
use hotdesk_base::ids::ThreadId;
use hotdesk_domain::desktop::thread::MAX_PICTURE_BYTES;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_store::Store;

/// Pictures of all steps; cheap to clone.
#[derive(Clone)]
pub(super) struct StepPictures {
    store: Store,
    blobs: BlobStore,
}

impl StepPictures {
    pub(super) fn new(store: Store, blobs: BlobStore) -> Self {
        Self { store, blobs }
    }

    /// Counts the stored pictures, after a sweep.
    pub(super) async fn recover(&self) -> Result<()> {
        self.sweep().await?;
        let recorded = self.store.step_pictures().await?;
        let counted = recorded
            .iter()
            .map(|picture| (picture.owner, picture.id, u64::try_from(picture.bytes).unwrap_or_default()));
        let unused = self.blobs.count_step_pictures(counted);
        self.store.detach_step_pictures(&unused).await?;
        self.blobs.forget_step_pictures(&unused).await;
        Ok(())
    }

    /// See [`Threads::sweep`](super::Threads::sweep).
    pub(super) async fn sweep(&self) -> Result<()> {
        let recorded: Vec<Uuid> =
            self.store.step_pictures().await?.into_iter().map(|picture| picture.id).collect();
        let blobs = self.blobs.clone();
        let swept = tokio::task::spawn_blocking(move || blobs.sweep_step_pictures(&recorded)).await;
        let StepPictureSweep { removed, missing } = swept.map_err(Error::internal)??;
        if removed > 0 || !missing.is_empty() {
            tracing::debug!(removed, missing = missing.len(), "removed pictures of steps");
        }
        self.store.detach_step_pictures(&missing).await
    }

    /// Stores a picture of a thread, and returns its id and bytes; `None` when it is too large or cannot be
    /// stored, which is logged.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub(super) async fn put(&self, thread: ThreadId, picture: &[u8]) -> Result<Option<(Uuid, i64)>> {
        if picture.is_empty() || picture.len() > MAX_PICTURE_BYTES {
            tracing::debug!(%thread, bytes = picture.len(), "a step has no picture because of its size");
            return Ok(None);
        }
        let owner = self.store.thread_owner(thread).await?.ok_or_else(super::unknown)?;
        let (stored, unused) = self.blobs.put_step_picture(owner, picture).await;
        // They are gone, whether the new picture was stored or not.
        self.store.detach_step_pictures(&unused).await?;
        match stored {
            Ok(id) => Ok(Some((id, i64::try_from(picture.len()).unwrap_or(i64::MAX)))),
            // A full disk for pictures must not end the run.
            Err(error) if error.kind == Kind::Unavailable => {
                tracing::warn!(%thread, error = format_args!("{error:#}"), "a step has no picture");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes pictures that no step has any more.
    pub(super) async fn remove(&self, unused: &[Uuid]) {
        self.blobs.forget_step_pictures(unused).await;
    }
}
