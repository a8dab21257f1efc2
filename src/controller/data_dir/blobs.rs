//! Blobs in the data folder and signed links to them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use hotdesk_base::clock;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::ids::FileId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// How long a link is valid (docs/api/files.md).
pub const LINK_LIFE: Duration = Duration::from_secs(3600);
/// Most screenshots in the folder; the oldest are removed first. At 0.1 to 1 MB each they need some gigabytes
/// at most.
const MAX_SCREENSHOTS: usize = 5000;
/// Screenshots that are stored between two sweeps of the folder. A sweep takes some milliseconds.
const UNSWEPT_SCREENSHOTS: usize = 500;

/// Free bytes that blobs leave on the disk. The database can continue for long with it, and the largest
/// upload fits.
const RESERVE: u64 = 16 * 1024 * 1024;

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
    /// Screenshots stored since the last sweep.
    unswept: Arc<AtomicUsize>,
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
        Ok(Self { folder, signer, unswept: Arc::default() })
    }

    /// Checks that [`RESERVE`] bytes are free.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) when fewer are free; `Internal` when the disk cannot be queried.
    pub fn check_free_space(&self) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.folder)
            .map_err(|error| failed("query the free space of", &self.folder, &error.into()))?;
        if stat.f_bavail.saturating_mul(stat.f_frsize) < RESERVE {
            return Err(failed("leave free space in", &self.folder, &io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// Returns the path of a blob.
    pub fn path(&self, kind: BlobKind, id: Uuid) -> PathBuf {
        self.folder.join(kind.name()).join(id.to_string())
    }

    /// Stores a screenshot and returns its id. It is not synced to the disk because it lives an hour.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) when the disk is full; `Internal` when it fails. Nothing is stored then.
    pub async fn put_screenshot(&self, bytes: &[u8]) -> Result<Uuid> {
        self.check_free_space()?;
        let id = Uuid::new_v4();
        let path = self.path(BlobKind::Screenshot, id);
        if let Err(error) = tokio::fs::write(&path, bytes).await {
            // Remove the partial file. If this fails, a sweep removes it after an hour.
            let _removed = tokio::fs::remove_file(&path).await;
            return Err(failed("write", &path, &error));
        }
        if self.unswept.fetch_add(1, Ordering::Relaxed) >= UNSWEPT_SCREENSHOTS {
            let blobs = self.clone();
            let swept = tokio::task::spawn_blocking(move || blobs.sweep_screenshots());
            swept.await.map_err(Error::internal)??;
        }
        Ok(id)
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

    /// Removes expired screenshots, the oldest screenshots beyond [`MAX_SCREENSHOTS`], and file blobs that
    /// are not in `known` and are older than a link's validity. A younger blob may belong to an upload in
    /// progress. Returns the number of removed blobs.
    ///
    /// # Errors
    /// `Internal` when a folder cannot be read.
    pub fn sweep(&self, known: &[FileId]) -> Result<usize> {
        let mut removed = self.sweep_screenshots()?;
        for (age, path) in self.aged(BlobKind::File)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let recorded = name.parse().is_ok_and(|id: FileId| known.contains(&id));
            if !recorded && age > LINK_LIFE {
                removed += usize::from(std::fs::remove_file(&path).is_ok());
            }
        }
        Ok(removed)
    }

    fn sweep_screenshots(&self) -> Result<usize> {
        self.unswept.store(0, Ordering::Relaxed);
        let mut removed = 0;
        let mut shots = self.aged(BlobKind::Screenshot)?;
        shots.sort_by_key(|(age, _)| *age);
        for (index, (age, path)) in shots.iter().enumerate() {
            if *age > LINK_LIFE || index >= MAX_SCREENSHOTS {
                removed += usize::from(std::fs::remove_file(path).is_ok());
            }
        }
        Ok(removed)
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

/// Converts a disk failure: a full disk is `Unavailable` (`disk_full`), any other is `Internal`. See T20
/// (docs/security.md).
pub fn failed(step: &str, path: &Path, error: &io::Error) -> Error {
    let context = format!("{step} {}: {error}", path.display());
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Error::unavailable("The service's disk is full")
            .code(ErrorCode::DiskFull)
            .retry_after(60)
            .context(context);
    }
    Error::internal(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn screenshots_are_bounded_between_two_sweeps() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let shots = folder.path().join("blobs/screenshots");
        for _ in 0..MAX_SCREENSHOTS {
            std::fs::write(shots.join(Uuid::new_v4().to_string()), "").unwrap();
        }
        let mut last = Uuid::nil();
        for _ in 0..=UNSWEPT_SCREENSHOTS {
            last = blobs.put_screenshot(b"x").await.unwrap();
        }
        assert_eq!(std::fs::read_dir(&shots).unwrap().count(), MAX_SCREENSHOTS);
        assert!(blobs.path(BlobKind::Screenshot, last).exists(), "the oldest went");
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
