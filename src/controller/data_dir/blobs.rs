//! Where are stored bytes, and who may fetch them by a link? Blobs in the data folder; links signed and expiring.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use hotdesk_base::clock::now_ms;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::ids::FileId;
use hotdesk_domain::error::{Error, Result};

/// How long a link lives (wire.md 9: "signed, 1 hour").
pub const LINK_LIFE: Duration = Duration::from_secs(3600);
/// Screenshots kept at most; past it the oldest go first. At about 0.1 to 1 MB each, some gigabytes at the worst.
const MAX_SCREENSHOTS: usize = 5000;
/// So many more may come before the folder is looked at again: looking costs some milliseconds.
const UNSWEPT_SCREENSHOTS: usize = 500;

/// Free space that blobs leave on the disk: the store's own writes go on for long with it, and a largest upload fits.
const RESERVE: u64 = 16 * 1024 * 1024;

/// What a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stored screenshot; it goes when its link has expired.
    Screenshot,
    /// A workspace's file.
    File,
}

impl Kind {
    /// The name in links.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshots",
            Self::File => "files",
        }
    }

    /// Parses a link's name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Screenshot, Self::File].into_iter().find(|kind| kind.name() == name)
    }
}

/// The blob folders of one data folder and the secret that signs links.
#[derive(Clone)]
pub struct Storage {
    folder: PathBuf,
    signer: Hmac<Sha256>,
    /// Screenshots stored since the last look at their number.
    unswept: Arc<AtomicUsize>,
}

impl Storage {
    /// Opens the folders (mode 0700 by the data folder).
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn open(data_dir: &Path, signing_secret: &str) -> Result<Self> {
        let folder = data_dir.join("blobs");
        for kind in [Kind::Screenshot, Kind::File] {
            let path = folder.join(kind.name());
            std::fs::create_dir_all(&path).map_err(|error| failed("make", &path, &error))?;
        }
        let signer = Hmac::new_from_slice(signing_secret.as_bytes()).map_err(Error::internal)?;
        Ok(Self { folder, signer, unswept: Arc::default() })
    }

    /// Refuses what needs room when the disk is nearly full.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`); or the disk cannot be asked.
    pub fn check_room(&self) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.folder)
            .map_err(|error| failed("look for free space in", &self.folder, &error.into()))?;
        if stat.f_bavail.saturating_mul(stat.f_frsize) < RESERVE {
            return Err(failed("keep a reserve in", &self.folder, &io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// The path of a blob.
    pub fn path(&self, kind: Kind, id: Uuid) -> PathBuf {
        self.folder.join(kind.name()).join(id.to_string())
    }

    /// Stores a screenshot; returns its id. Not synced to the disk: it lives an hour.
    ///
    /// # Errors
    /// `Unavailable` when the disk is full.
    pub async fn put_screenshot(&self, bytes: &[u8]) -> Result<Uuid> {
        self.check_room()?;
        let id = Uuid::new_v4();
        let path = self.path(Kind::Screenshot, id);
        if let Err(error) = tokio::fs::write(&path, bytes).await {
            // Half a picture is none; what cannot be removed now is swept when its hour is over.
            let _half = tokio::fs::remove_file(&path).await;
            return Err(failed("write", &path, &error));
        }
        if self.unswept.fetch_add(1, Ordering::Relaxed) >= UNSWEPT_SCREENSHOTS {
            let storage = self.clone();
            let swept = tokio::task::spawn_blocking(move || storage.sweep_screenshots());
            swept.await.map_err(Error::internal)??;
        }
        Ok(id)
    }

    /// A link's path and query: `/api/storage/{kind}/{id}/{name}?expires=..&signature=..`.
    pub fn link(&self, kind: Kind, id: Uuid, name: &str) -> String {
        let expires = now_ms() / 1000 + i64::try_from(LINK_LIFE.as_secs()).unwrap_or_default();
        let signature = hex(&self.sign(kind, id, expires).finalize().into_bytes());
        let name = hotdesk_guest::percent_encode(name);
        format!("/api/storage/{}/{id}/{name}?expires={expires}&signature={signature}", kind.name())
    }

    /// Whether a link was made here and has not expired.
    pub fn verify(&self, kind: Kind, id: Uuid, expires: i64, signature: &str) -> bool {
        let Some(bytes) = unhex(signature.as_bytes()) else { return false };
        expires > now_ms() / 1000 && self.sign(kind, id, expires).verify_slice(&bytes).is_ok()
    }

    fn sign(&self, kind: Kind, id: Uuid, expires: i64) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(format!("{}/{id}/{expires}", kind.name()).as_bytes());
        signer
    }

    /// Removes a blob; one that is gone is no failure.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn remove(&self, kind: Kind, id: Uuid) -> Result<()> {
        let path = self.path(kind, id);
        match tokio::fs::remove_file(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the bytes of files whose records are gone; what cannot be removed now is swept later.
    pub async fn forget(&self, files: &[FileId]) {
        for file in files {
            if let Err(error) = self.remove(Kind::File, file.0).await {
                tracing::warn!(%file, %error, "the bytes of a removed file were left");
            }
        }
    }

    /// Removes screenshots whose links have expired, the oldest beyond [`MAX_SCREENSHOTS`], and file blobs that no
    /// record names (`known`) and that are older than a link's life (an upload in progress has no record yet).
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn sweep(&self, known: &[FileId]) -> Result<usize> {
        let mut removed = self.sweep_screenshots()?;
        for (age, path) in self.aged(Kind::File)? {
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
        let mut shots = self.aged(Kind::Screenshot)?;
        shots.sort_by_key(|(age, _)| *age);
        for (index, (age, path)) in shots.iter().enumerate() {
            if *age > LINK_LIFE || index >= MAX_SCREENSHOTS {
                removed += usize::from(std::fs::remove_file(path).is_ok());
            }
        }
        Ok(removed)
    }

    fn aged(&self, kind: Kind) -> Result<Vec<(Duration, PathBuf)>> {
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

/// A disk failure as the house's error: a full disk may pass, the rest is a defect (threats.md T20).
pub fn failed(step: &str, path: &Path, error: &io::Error) -> Error {
    let context = format!("{step} {}: {error}", path.display());
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Error::unavailable("The service's disk is full")
            .code("disk_full")
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
        let storage = Storage::open(folder.path(), "secret").unwrap();
        let shots = folder.path().join("blobs/screenshots");
        for _ in 0..MAX_SCREENSHOTS {
            std::fs::write(shots.join(Uuid::new_v4().to_string()), "").unwrap();
        }
        let mut last = Uuid::nil();
        for _ in 0..=UNSWEPT_SCREENSHOTS {
            last = storage.put_screenshot(b"x").await.unwrap();
        }
        assert_eq!(std::fs::read_dir(&shots).unwrap().count(), MAX_SCREENSHOTS);
        assert!(storage.path(Kind::Screenshot, last).exists(), "the oldest went");
    }

    #[test]
    fn a_link_opens_what_it_was_made_for_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path(), "secret").unwrap();
        let id = Uuid::new_v4();
        let link = storage.link(Kind::File, id, "a b.txt");
        assert!(link.starts_with(&format!("/api/storage/files/{id}/a%20b.txt?")), "{link}");
        let (_, query) = link.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        let expires: i64 = expires.parse().unwrap();
        assert!(storage.verify(Kind::File, id, expires, signature));
        assert!(!storage.verify(Kind::Screenshot, id, expires, signature));
        assert!(!storage.verify(Kind::File, Uuid::new_v4(), expires, signature));
        assert!(!storage.verify(Kind::File, id, expires + 1, signature));
        assert!(!storage.verify(Kind::File, id, expires, ""));
        let other = Storage::open(folder.path(), "another").unwrap();
        assert!(!other.verify(Kind::File, id, expires, signature));
        let past = hex(&storage.sign(Kind::File, id, 1).finalize().into_bytes());
        assert!(!storage.verify(Kind::File, id, 1, &past));
    }
}
