//! Blobs in the data folder and signed links to them.

mod kinds;
mod links;
mod pictures;
mod sweep;

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit};
use sha2::Sha256;
use uuid::Uuid;

use super::disk::{self, failed};
use super::screenshots::{MAX_COUNT, MAX_SMALL_COUNT};
use hotdesk_base::ids::FileId;
use hotdesk_domain::error::{Error, Result};
pub use kinds::{BlobKind, PictureKind};
pub use links::LINK_LIFE;
use pictures::Pictures;
pub use sweep::PictureSweep;

/// Free bytes that blobs leave on the disk. The database can continue for long with it, and the largest
/// upload fits.
const RESERVE: u64 = 16 * 1024 * 1024;

/// Blob folders of one data folder, and the key that signs links.
#[derive(Clone)]
pub struct BlobStore {
    folder: PathBuf,
    signer: Hmac<Sha256>,
    screenshots: Pictures,
    step_pictures: Pictures,
    timeline_pictures: Pictures,
    snapshot_pictures: Pictures,
}

impl BlobStore {
    /// Opens the folders, and creates missing ones. The data folder has mode 0700.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) or `Internal` when a folder cannot be created.
    pub fn open(data_dir: &Path, signing_secret: &str) -> Result<Self> {
        let folder = data_dir.join("blobs");
        for kind in BlobKind::ALL {
            let path = folder.join(kind.name());
            std::fs::create_dir_all(&path).map_err(|error| failed("make", &path, &error))?;
        }
        let signer = Hmac::new_from_slice(signing_secret.as_bytes()).map_err(Error::internal)?;
        let stat = disk::file_system(&folder)?;
        let disk_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
        let screenshots = Pictures::new(BlobKind::Screenshot, disk_bytes, MAX_COUNT);
        let step_pictures = Pictures::new(BlobKind::StepPicture, disk_bytes, MAX_COUNT);
        let timeline_pictures = Pictures::new(BlobKind::TimelinePicture, disk_bytes, MAX_SMALL_COUNT);
        let snapshot_pictures = Pictures::new(BlobKind::SnapshotPicture, disk_bytes, MAX_COUNT);
        let blobs = Self { folder, signer, screenshots, step_pictures, timeline_pictures, snapshot_pictures };
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
            for id in self.screenshots.ledger().add(None, id, bytes) {
                let path = self.path(BlobKind::Screenshot, id);
                std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(())
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
}

/// The id of a blob at a path.
fn id_of(path: &Path) -> Option<Uuid> {
    path.file_name()?.to_str()?.parse().ok()
}
