//! Sweep of blobs without a record, and of expired screenshots.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{BlobKind, BlobStore, LINK_LIFE, PictureKind, id_of};
use crate::data_dir::disk::failed;
use hotdesk_base::ids::FileId;
use hotdesk_domain::error::Result;

/// Differences between the pictures of a kind that are stored and those that are recorded.
#[derive(Debug, Default)]
pub struct PictureSweep {
    /// Number of removed blobs without a record.
    pub removed: usize,
    /// Records without a blob.
    pub missing: Vec<Uuid>,
}

impl BlobStore {
    /// Removes pictures of a kind that are not in `recorded` and are older than a link's validity, and
    /// returns the recorded ones that have no blob. A younger picture may belong to a record that is being
    /// stored.
    ///
    /// # Errors
    /// `Internal` when the folder cannot be read.
    pub fn sweep_pictures(&self, kind: PictureKind, recorded: &[Uuid]) -> Result<PictureSweep> {
        let mut missing: HashSet<Uuid> = recorded.iter().copied().collect();
        let mut gone = HashSet::new();
        for (age, path) in self.aged(kind.blob())? {
            let Some(id) = id_of(&path) else { continue };
            let is_recorded = missing.remove(&id);
            if !is_recorded && age > LINK_LIFE && std::fs::remove_file(&path).is_ok() {
                gone.insert(id);
            }
        }
        let removed = gone.len();
        gone.extend(&missing);
        self.pictures(kind).ledger().forget(&gone);
        Ok(PictureSweep { removed, missing: missing.into_iter().collect() })
    }

    /// Removes expired screenshots, and file blobs that are not in `known` and are older than a link's validity.
    /// A younger blob may belong to an upload in progress. Returns the number of removed blobs.
    ///
    /// # Errors
    /// `Internal` when a folder cannot be read.
    pub fn sweep(&self, known: &[FileId]) -> Result<usize> {
        let mut removed = self.sweep_screenshots()?;
        for (age, path) in self.aged(BlobKind::File)? {
            let recorded = id_of(&path).is_some_and(|id| known.contains(&FileId(id)));
            if !recorded && age > LINK_LIFE {
                removed += usize::from(std::fs::remove_file(&path).is_ok());
            }
        }
        Ok(removed)
    }

    fn sweep_screenshots(&self) -> Result<usize> {
        let mut removed = HashSet::new();
        for (age, path) in self.aged(BlobKind::Screenshot)? {
            if age > LINK_LIFE && std::fs::remove_file(&path).is_ok() {
                removed.extend(id_of(&path));
            }
        }
        self.screenshots.ledger().forget(&removed);
        Ok(removed.len())
    }

    pub(super) fn aged(&self, kind: BlobKind) -> Result<Vec<(Duration, PathBuf)>> {
        let folder = self.folder.join(kind.name());
        let entries = std::fs::read_dir(&folder).map_err(|error| failed("read", &folder, &error))?;
        let now = SystemTime::now();
        let aged = entries.flatten().filter_map(|entry| {
            let modified = entry.metadata().ok()?.modified().ok()?;
            Some((now.duration_since(modified).unwrap_or_default(), entry.path()))
        });
        Ok(aged.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::screenshots::MAX_COUNT;
    use hotdesk_base::ids::AccountId;

    #[tokio::test]
    async fn pictures_of_steps_are_bounded_and_swept() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let owner = AccountId::random();
        let (kept, nothing) = blobs.put_recorded(PictureKind::Step, owner, b"kept").await;
        assert_eq!(nothing, Vec::<Uuid>::new());
        let (removed, _) = blobs.put_recorded(PictureKind::Step, owner, b"removed").await;
        let (kept, removed) = (kept.unwrap(), removed.unwrap());
        blobs.forget_pictures(PictureKind::Step, &[removed]).await;
        let path = |id| blobs.path(BlobKind::StepPicture, id);
        assert!(path(kept).exists() && !path(removed).exists());
        // Old blobs without a record go, young ones and those with a record stay.
        let (young, old, lost) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
        for id in [young, old] {
            std::fs::write(path(id), "x").unwrap();
        }
        let long_ago = SystemTime::now() - LINK_LIFE * 2;
        for id in [kept, old] {
            std::fs::File::options().write(true).open(path(id)).unwrap().set_modified(long_ago).unwrap();
        }
        let swept = blobs.sweep_pictures(PictureKind::Step, &[kept, lost]).unwrap();
        assert_eq!((swept.removed, swept.missing), (1, vec![lost]));
        assert!(path(kept).exists() && path(young).exists() && !path(old).exists());
        // A restart counts the recorded ones, the oldest of which make room.
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let recorded: Vec<_> = (0..=MAX_COUNT).map(|_| (owner, Uuid::new_v4(), 0)).collect();
        assert_eq!(blobs.count_pictures(PictureKind::Step, recorded.iter().copied()), [recorded[0].1]);
        let (stored, oldest) = blobs.put_recorded(PictureKind::Step, owner, b"x").await;
        assert!(stored.is_ok());
        assert_eq!(oldest, [recorded[1].1]);
    }
}
