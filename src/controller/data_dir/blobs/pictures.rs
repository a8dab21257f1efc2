//! Pictures that are bounded: the oldest ones make room for a new one.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::{BlobKind, BlobStore, PictureKind};
use crate::data_dir::disk::failed;
use crate::data_dir::screenshots::Ledger;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Bytes of a screenshot between two looks for free space: a real one is written at once.
const PIECE: usize = 4 * 1024 * 1024;

/// Pictures of one kind that are bounded, with their ledger.
#[derive(Clone)]
pub(super) struct Pictures {
    kind: BlobKind,
    ledger: Arc<Mutex<Ledger>>,
}

impl Pictures {
    pub(super) fn new(kind: BlobKind, disk_bytes: u64, most_count: usize) -> Self {
        Self { kind, ledger: Arc::new(Mutex::new(Ledger::new(disk_bytes, most_count))) }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlobStore {
    pub(super) fn pictures(&self, kind: PictureKind) -> &Pictures {
        match kind {
            PictureKind::Step => &self.step_pictures,
            PictureKind::Timeline => &self.timeline_pictures,
            PictureKind::Snapshot => &self.snapshot_pictures,
        }
    }

    /// Counts the recorded pictures of a kind, oldest first: account, id and bytes. Returns those that must
    /// be removed, because the disk is smaller than before.
    pub fn count_pictures(
        &self,
        kind: PictureKind,
        recorded: impl IntoIterator<Item = (AccountId, Uuid, u64)>,
    ) -> Vec<Uuid> {
        let mut ledger = self.pictures(kind).ledger();
        recorded.into_iter().flat_map(|(owner, id, bytes)| ledger.add(Some(owner), id, bytes)).collect()
    }

    /// Stores a screenshot of an account's computer and returns its id. The oldest ones make room for it. It is not
    /// synced to the disk because it lives an hour.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) when the disk is full, and for more than an account may store; `Internal` when
    /// the disk fails. Nothing is stored then.
    pub async fn put_screenshot(&self, owner: AccountId, bytes: &[u8]) -> Result<Uuid> {
        self.put_picture(&self.screenshots, owner, bytes).await.0
    }

    /// Stores the picture of a record of an account's computer. The oldest pictures of the kind make room for
    /// it. Returns its id, or an error of [`Self::put_screenshot`], and in both cases the ids of those that
    /// made room: no record may have them any more. It is not synced to the disk: after a power cut the
    /// record has no picture.
    pub async fn put_recorded(
        &self,
        kind: PictureKind,
        owner: AccountId,
        bytes: &[u8],
    ) -> (Result<Uuid>, Vec<Uuid>) {
        self.put_picture(self.pictures(kind), owner, bytes).await
    }

    async fn put_picture(
        &self,
        pictures: &Pictures,
        owner: AccountId,
        bytes: &[u8],
    ) -> (Result<Uuid>, Vec<Uuid>) {
        let (kind, size) = (pictures.kind, bytes.len() as u64);
        if let Err(error) = self.check_room(pictures, size) {
            return (Err(error), Vec::new());
        }
        let id = Uuid::new_v4();
        let path = self.path(kind, id);
        // It counts before it is written, so that pictures at the same time count each other.
        let oldest = pictures.ledger().add(Some(owner), id, size);
        for id in &oldest {
            self.evict(pictures, *id).await;
        }
        let written = self.write_pieces(&path, bytes).await;
        // Larger pictures of others may have taken its place meanwhile.
        let counts = pictures.ledger().has(Some(owner), id);
        if written.is_err() || !counts {
            // Remove the partial file. If this fails, a sweep removes it after an hour.
            let _removed = tokio::fs::remove_file(&path).await;
            pictures.ledger().forget(&HashSet::from([id]));
        }
        let kept = written.and_then(|()| match counts {
            true => Ok(id),
            false => Err(failed("keep", &path, &io::ErrorKind::StorageFull.into())),
        });
        (kept, oldest)
    }

    fn check_room(&self, pictures: &Pictures, size: u64) -> Result<()> {
        if !pictures.ledger().fits(size) {
            return Err(Error::unavailable(
                "The screenshot is larger than what one account may store: use response_format=binary",
            )
            .code(ErrorCode::DiskFull));
        }
        self.check_free_space(size)
    }

    /// Removes a picture that the ledger has given up. One that cannot be removed counts on, until a later
    /// picture or a sweep removes it.
    async fn evict(&self, pictures: &Pictures, id: Uuid) {
        let Err(error) = self.remove(pictures.kind, id).await else { return };
        tracing::warn!(picture = %id, error = format_args!("{error:#}"), "could not remove the oldest picture");
        let stored = tokio::fs::metadata(self.path(pictures.kind, id)).await;
        pictures.ledger().restore(id, stored.map_or(0, |stored| stored.len()));
    }

    /// Writes a file, and looks for free space before each piece.
    async fn write_pieces(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let failed = |error: io::Error| failed("write", path, &error);
        let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
        for piece in bytes.chunks(PIECE) {
            self.check_free_space(piece.len() as u64)?;
            file.write_all(piece).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)
    }

    /// Removes pictures whose records are gone. A later sweep removes those that fail now.
    pub async fn forget_pictures(&self, kind: PictureKind, pictures: &[Uuid]) {
        for picture in pictures {
            if let Err(error) = self.remove(kind.blob(), *picture).await {
                tracing::warn!(
                    %picture,
                    error = format_args!("{error:#}"),
                    "could not remove the picture of a removed record; the next sweep retries"
                );
            }
        }
        if !pictures.is_empty() {
            self.pictures(kind).ledger().forget(&pictures.iter().copied().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::screenshots::MAX_COUNT;

    #[tokio::test]
    async fn screenshots_are_bounded_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let shots = folder.path().join("blobs/screenshots");
        std::fs::create_dir_all(&shots).unwrap();
        for _ in 0..MAX_COUNT + 3 {
            std::fs::write(shots.join(Uuid::new_v4().to_string()), "").unwrap();
        }
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        assert_eq!(std::fs::read_dir(&shots).unwrap().count(), MAX_COUNT);
        let last = blobs.put_screenshot(AccountId::random(), b"x").await.unwrap();
        assert_eq!(std::fs::read_dir(&shots).unwrap().count(), MAX_COUNT);
        assert!(blobs.path(BlobKind::Screenshot, last).exists(), "an older one went");
    }

    #[tokio::test]
    async fn a_picture_that_cannot_be_removed_counts_on() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let owner = AccountId::random();
        let recorded: Vec<_> = (0..MAX_COUNT).map(|_| (owner, Uuid::new_v4(), 0)).collect();
        assert_eq!(blobs.count_pictures(PictureKind::Step, recorded.iter().copied()), Vec::<Uuid>::new());
        // A folder is no file to remove.
        std::fs::create_dir(blobs.path(BlobKind::StepPicture, recorded[0].1)).unwrap();
        let (stored, oldest) = blobs.put_recorded(PictureKind::Step, owner, b"x").await;
        assert!(
            blobs.path(BlobKind::StepPicture, stored.unwrap()).exists(),
            "a failed removal stops nothing"
        );
        assert_eq!(oldest, [recorded[0].1], "its step loses it");
        assert!(blobs.step_pictures.ledger().has(None, recorded[0].1));
        // Those that made room are told also when the new picture cannot be written.
        std::fs::rename(folder.path().join("blobs/step-pictures"), folder.path().join("away")).unwrap();
        let (stored, oldest) = blobs.put_recorded(PictureKind::Step, owner, b"x").await;
        assert!(stored.is_err() && !oldest.is_empty());
    }
}
