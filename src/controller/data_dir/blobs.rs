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
use super::screenshots::{Ledger, MAX_COUNT, MAX_SMALL_COUNT};
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
    /// The screen after a step of a chat thread. It stays as long as the step has it.
    StepPicture,
    /// A small picture of a screen in a timeline. It stays as long as its entry has it.
    TimelinePicture,
    /// A small picture of the screen in a snapshot. It stays as long as the snapshot has it.
    SnapshotPicture,
}

/// Kind of pictures that stay as long as a record has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureKind {
    /// The screen after a step of a chat thread.
    Step,
    /// A small picture of a screen in a timeline.
    Timeline,
    /// A small picture of the screen in a snapshot.
    Snapshot,
}

impl PictureKind {
    /// Returns the kind of the blobs.
    pub fn blob(self) -> BlobKind {
        match self {
            Self::Step => BlobKind::StepPicture,
            Self::Timeline => BlobKind::TimelinePicture,
            Self::Snapshot => BlobKind::SnapshotPicture,
        }
    }
}

impl BlobKind {
    /// Every kind.
    const ALL: [Self; 5] =
        [Self::Screenshot, Self::File, Self::StepPicture, Self::TimelinePicture, Self::SnapshotPicture];

    /// Returns the name in links and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshots",
            Self::File => "files",
            Self::StepPicture => "step-pictures",
            Self::TimelinePicture => "timeline-pictures",
            Self::SnapshotPicture => "snapshot-pictures",
        }
    }

    /// Parses the name in a link.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

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

/// Pictures of one kind that are bounded, with their ledger.
#[derive(Clone)]
struct Pictures {
    kind: BlobKind,
    ledger: Arc<Mutex<Ledger>>,
}

impl Pictures {
    fn new(kind: BlobKind, disk_bytes: u64, most_count: usize) -> Self {
        Self { kind, ledger: Arc::new(Mutex::new(Ledger::new(disk_bytes, most_count))) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Differences between the pictures of a kind that are stored and those that are recorded.
#[derive(Debug, Default)]
pub struct PictureSweep {
    /// Number of removed blobs without a record.
    pub removed: usize,
    /// Records without a blob.
    pub missing: Vec<Uuid>,
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

    fn pictures(&self, kind: PictureKind) -> &Pictures {
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
