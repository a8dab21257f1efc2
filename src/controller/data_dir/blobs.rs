//! Blobs in the data folder and signed links to them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::disk::{self, failed};
use super::screenshots::Ledger;
use hotdesk_base::clock;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::ids::{AccountId, FileId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// How long a link is valid (docs/api/files.md).
pub const LINK_LIFE: Duration = Duration::from_secs(3600);
/// Free bytes that blobs leave on the disk. The database can continue for long with it, and the largest
/// upload fits.
const RESERVE: u64 = 16 * 1024 * 1024;

/// Bytes of a screenshot between two looks for free space: a real one is written at once.
const PIECE: usize = 4 * 1024 * 1024;

/// Kind of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// A stored screenshot. It is removed when its link expires.
    Screenshot,
    /// A file of a workspace.
    File,
}

impl BlobKind {
    /// Returns the name in links and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshots",
            Self::File => "files",
        }
    }

    /// Parses the name in a link.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Screenshot, Self::File].into_iter().find(|kind| kind.name() == name)
    }
}

/// Blob folders of one data folder, and the key that signs links.
#[derive(Clone)]
pub struct BlobStore {
    folder: PathBuf,
    signer: Hmac<Sha256>,
    screenshots: Arc<Mutex<Ledger>>,
}

impl BlobStore {
    /// Opens the folders, and creates missing ones. The data folder has mode 0700.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) or `Internal` when a folder cannot be created.
    pub fn open(data_dir: &Path, signing_secret: &str) -> Result<Self> {
        let folder = data_dir.join("blobs");
        for kind in [BlobKind::Screenshot, BlobKind::File] {
            let path = folder.join(kind.name());
            std::fs::create_dir_all(&path).map_err(|error| failed("make", &path, &error))?;
        }
        let signer = Hmac::new_from_slice(signing_secret.as_bytes()).map_err(Error::internal)?;
        let stat = disk::file_system(&folder)?;
        let ledger = Ledger::new(stat.f_blocks.saturating_mul(stat.f_frsize));
        let blobs = Self { folder, signer, screenshots: Arc::new(Mutex::new(ledger)) };
        blobs.count_stored_screenshots()?;
        Ok(blobs)
    }

    /// Counts the screenshots of an earlier controller, which have no owner any more.
    fn count_stored_screenshots(&self) -> Result<()> {
        let mut stored = self.aged(BlobKind::Screenshot)?;
        stored.sort_by_key(|(age, _)| Reverse(*age));
        for (_, path) in stored {
            let bytes = path.metadata().map_or(0, |metadata| metadata.len());
            let Some(id) = id_of(&path) else { continue };
            for id in self.ledger().add(None, id, bytes) {
                let path = self.path(BlobKind::Screenshot, id);
                std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.screenshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that [`RESERVE`] bytes and `bytes` more are free.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) when fewer are free; `Internal` when the disk cannot be queried.
    pub fn check_free_space(&self, bytes: u64) -> Result<()> {
        disk::check_free_space(&self.folder, RESERVE, bytes)
    }

    /// Returns the path of a blob.
    pub fn path(&self, kind: BlobKind, id: Uuid) -> PathBuf {
        self.folder.join(kind.name()).join(id.to_string())
    }

    /// Stores a screenshot of an account's computer and returns its id. The oldest ones make room for it. It is not
    /// synced to the disk because it lives an hour.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) when the disk is full, and for more than an account may store; `Internal` when
    /// the disk fails. Nothing is stored then.
    pub async fn put_screenshot(&self, owner: AccountId, bytes: &[u8]) -> Result<Uuid> {
        let size = bytes.len() as u64;
        if !self.ledger().fits(size) {
            return Err(Error::unavailable(
                "The screenshot is larger than what one account may store: use response_format=binary",
            )
            .code(ErrorCode::DiskFull));
        }
        self.check_free_space(size)?;
        let id = Uuid::new_v4();
        let path = self.path(BlobKind::Screenshot, id);
        // It counts before it is written, so that screenshots at the same time count each other.
        let oldest = self.ledger().add(Some(owner), id, size);
        let written = async {
            for id in oldest {
                self.remove(BlobKind::Screenshot, id).await?;
            }
            self.write_pieces(&path, bytes).await
        };
        let written = written.await;
        // Larger screenshots of others may have taken its place meanwhile.
        let counts = self.ledger().has(Some(owner), id);
        if written.is_err() || !counts {
            // Remove the partial file. If this fails, a sweep removes it after an hour.
            let _removed = tokio::fs::remove_file(&path).await;
            self.ledger().forget(&HashSet::from([id]));
        }
        written?;
        if counts { Ok(id) } else { Err(failed("keep", &path, &io::ErrorKind::StorageFull.into())) }
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

    /// Returns the path and query of a new link: `/api/storage/{kind}/{id}/{name}?expires=..&signature=..`.
    /// `expires` is in Unix seconds.
    pub fn link(&self, kind: BlobKind, id: Uuid, name: &str) -> String {
        let expires = clock::now().plus(LINK_LIFE).as_seconds();
        let signature = hex(&self.sign(kind, id, expires).finalize().into_bytes());
        let name = hotdesk_guest::percent_encode(name);
        format!("/api/storage/{}/{id}/{name}?expires={expires}&signature={signature}", kind.name())
    }

    /// Whether a link has a valid signature and has not expired. `expires` is in Unix seconds.
    pub fn verify(&self, kind: BlobKind, id: Uuid, expires: i64, signature: &str) -> bool {
        let Some(bytes) = unhex(signature.as_bytes()) else { return false };
        expires > clock::now().as_seconds() && self.sign(kind, id, expires).verify_slice(&bytes).is_ok()
    }

    fn sign(&self, kind: BlobKind, id: Uuid, expires: i64) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(format!("{}/{id}/{expires}", kind.name()).as_bytes());
        signer
    }

    /// Removes a blob. A missing blob is not an error.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn remove(&self, kind: BlobKind, id: Uuid) -> Result<()> {
        let path = self.path(kind, id);
        match tokio::fs::remove_file(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the blobs of files whose records are gone. A later sweep removes those that fail now.
    pub async fn forget(&self, files: &[FileId]) {
        for file in files {
            if let Err(error) = self.remove(BlobKind::File, file.0).await {
                tracing::warn!(
                    %file,
                    error = format_args!("{error:#}"),
                    "could not remove the blob of a removed file; the next sweep retries"
                );
            }
        }
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
        self.ledger().forget(&removed);
        Ok(removed.len())
    }

    fn aged(&self, kind: BlobKind) -> Result<Vec<(Duration, PathBuf)>> {
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

/// The id of a blob at a path.
fn id_of(path: &Path) -> Option<Uuid> {
    path.file_name()?.to_str()?.parse().ok()
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

    #[test]
    fn a_link_is_valid_only_for_its_blob() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let id = Uuid::new_v4();
        let link = blobs.link(BlobKind::File, id, "a b.txt");
        assert!(link.starts_with(&format!("/api/storage/files/{id}/a%20b.txt?")), "{link}");
        let (_, query) = link.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        let expires: i64 = expires.parse().unwrap();
        assert!(blobs.verify(BlobKind::File, id, expires, signature));
        assert!(!blobs.verify(BlobKind::Screenshot, id, expires, signature));
        assert!(!blobs.verify(BlobKind::File, Uuid::new_v4(), expires, signature));
        assert!(!blobs.verify(BlobKind::File, id, expires + 1, signature));
        assert!(!blobs.verify(BlobKind::File, id, expires, ""));
        let other = BlobStore::open(folder.path(), "another").unwrap();
        assert!(!other.verify(BlobKind::File, id, expires, signature));
        let past = hex(&blobs.sign(BlobKind::File, id, 1).finalize().into_bytes());
        assert!(!blobs.verify(BlobKind::File, id, 1, &past));
    }
}
