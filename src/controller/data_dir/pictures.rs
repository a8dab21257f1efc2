//! Pictures of records: blobs, with their ids in the store.
//!
//! The blob is written before its record and removed after it, so a crash leaves a blob without a record. A
//! sweep removes it after an hour. A record without a blob, after a power cut, loses its picture.

use uuid::Uuid;

use crate::data_dir::blobs::{BlobStore, PictureKind, PictureSweep};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_store::Store;
use hotdesk_store::fleet::threads::StoredPicture;

/// Pictures of all records of one kind; cheap to clone.
#[derive(Clone)]
pub struct RecordedPictures {
    kind: PictureKind,
    store: Store,
    blobs: BlobStore,
}

impl RecordedPictures {
    /// The pictures of a kind.
    pub fn new(kind: PictureKind, store: Store, blobs: BlobStore) -> Self {
        Self { kind, store, blobs }
    }

    /// Counts the stored pictures, after a sweep. Call it once, before pictures are stored.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn recover(&self) -> Result<()> {
        self.sweep().await?;
        let recorded = self.recorded().await?;
        let counted = recorded
            .iter()
            .map(|picture| (picture.owner, picture.id, u64::try_from(picture.bytes).unwrap_or_default()));
        let unused = self.blobs.count_pictures(self.kind, counted);
        self.detach(&unused).await?;
        self.remove(&unused).await;
        Ok(())
    }

    /// Removes pictures that a crash left without a record, and takes those without a blob from their
    /// records.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn sweep(&self) -> Result<()> {
        let recorded: Vec<Uuid> = self.recorded().await?.into_iter().map(|picture| picture.id).collect();
        let (blobs, kind) = (self.blobs.clone(), self.kind);
        let swept = hotdesk_base::tasks::spawn_blocking(move || blobs.sweep_pictures(kind, &recorded)).await;
        let PictureSweep { removed, missing } = swept.map_err(Error::internal)??;
        if removed > 0 || !missing.is_empty() {
            tracing::debug!(?kind, removed, missing = missing.len(), "removed pictures of records");
        }
        self.detach(&missing).await
    }

    /// Stores a picture of at most `most` bytes of a record of an account's computer, and returns its id and
    /// bytes; `None` when it is too large or cannot be stored, which is logged.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn put(&self, owner: AccountId, picture: &[u8], most: usize) -> Result<Option<(Uuid, i64)>> {
        if picture.is_empty() || picture.len() > most {
            let bytes = picture.len();
            tracing::debug!(kind = ?self.kind, bytes, "a record has no picture because of its size");
            return Ok(None);
        }
        let (stored, unused) = self.blobs.put_recorded(self.kind, owner, picture).await;
        // They are gone, whether the new picture was stored or not.
        self.detach(&unused).await?;
        match stored {
            Ok(id) => Ok(Some((id, i64::try_from(picture.len()).unwrap_or(i64::MAX)))),
            // A full disk for pictures must not end what is recorded.
            Err(error) if error.kind == Kind::Unavailable => {
                let kind = self.kind;
                tracing::warn!(?kind, error = format_args!("{error:#}"), "a record has no picture");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a picture; `None` when it is gone.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn read(&self, picture: Uuid) -> Result<Option<Vec<u8>>> {
        match tokio::fs::read(self.blobs.path(self.kind.blob(), picture)).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::internal(format!("read picture {picture}: {error}"))),
        }
    }

    /// Removes pictures that no record has any more.
    pub async fn remove(&self, unused: &[Uuid]) {
        self.blobs.forget_pictures(self.kind, unused).await;
    }

    async fn recorded(&self) -> Result<Vec<StoredPicture>> {
        match self.kind {
            PictureKind::Step => self.store.step_pictures().await,
            PictureKind::Timeline => self.store.timeline_pictures().await,
            PictureKind::Snapshot => self.store.snapshot_pictures().await,
        }
    }

    async fn detach(&self, pictures: &[Uuid]) -> Result<()> {
        match self.kind {
            PictureKind::Step => self.store.detach_step_pictures(pictures).await,
            PictureKind::Timeline => self.store.detach_timeline_pictures(pictures).await,
            PictureKind::Snapshot => self.store.detach_snapshot_pictures(pictures).await,
        }
    }
}
