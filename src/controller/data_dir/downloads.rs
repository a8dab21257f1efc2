//! Download caches of accounts: what apt, pip and npm downloaded in builds, as tar archives.
//!
//! ```text
//! <store>/downloads/<account>/<milliseconds>.<tool>.<id>.tar   new downloads of a layer's steps; never changed
//!                            /*.new                            an archive that is being received
//! ```
//! Archives come from computers of builds and only go to such computers of the same account. The host never unpacks them. The
//! rename under the final name is last, so an archive is whole or not there.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tempfile::TempPath;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::disk::{check_free_space, failed, free_bytes};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::disk_guard::HOST_RESERVE;
use hotdesk_domain::error::{Error, Result};

/// Most bytes of an account's archives (1 GiB): the packages of some desktops with their programs.
const MAX_BYTES: u64 = 1 << 30;
/// Most archives of an account. Each is one request to the agent of every computer that uses the cache.
const MAX_ARCHIVES: usize = 64;
/// Most bytes of the archives of all accounts (8 GiB), so that many accounts do not fill the disk.
const MAX_TOTAL_BYTES: u64 = 8 << 30;
/// Free bytes that caches leave on the disk: far above the reserve below which computers that grow are frozen. A cache only
/// saves time, so everything else goes first.
const FREE_RESERVE: u64 = 4 * HOST_RESERVE;
/// Age at which an archive is removed: packages of a month ago have later versions by then.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Age at which an unfinished archive is removed: no build is as old.
const MAX_UNFINISHED_AGE: Duration = Duration::from_secs(2 * 3600);
/// Ends of the names of archives, and of those that are not complete.
const ARCHIVE: &str = "tar";
const UNFINISHED: &str = "new";

/// The caches of a data folder; cheap to clone.
#[derive(Clone, Debug)]
pub struct DownloadCaches {
    folder: PathBuf,
}

/// An archive on the disk, complete or not.
#[derive(Debug)]
struct Archive {
    path: PathBuf,
    tool: String,
    stored_at: UnixMillis,
    bytes: u64,
}

impl DownloadCaches {
    /// Opens the folder, creates it when missing, and removes what an earlier controller did not complete.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`) or `Internal` when the disk fails.
    pub fn open(store_dir: &Path) -> Result<Self> {
        let folder = store_dir.join("downloads");
        std::fs::create_dir_all(&folder).map_err(|error| failed("make", &folder, &error))?;
        for account in entries(&folder)? {
            for path in entries(&account)?.into_iter().filter(|path| has_extension(path, UNFINISHED)) {
                std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(Self { folder })
    }

    /// Returns an account's archives of a tool, the oldest first. Of more than `most` bytes, the newest are chosen.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn archives(&self, account: AccountId, tool: &str, most: u64) -> Result<Vec<PathBuf>> {
        let mut left = most;
        let archives = self.of(account, ARCHIVE).await?;
        let newest =
            archives.into_iter().rev().filter(|archive| archive.tool == tool).take_while(|archive| {
                let fits = archive.bytes <= left;
                left = left.saturating_sub(archive.bytes);
                fits
            });
        let mut chosen: Vec<PathBuf> = newest.map(|archive| archive.path).collect();
        chosen.reverse();
        Ok(chosen)
    }

    /// Stores an archive of a tool, and returns its bytes. The account's oldest ones make room for it.
    ///
    /// # Errors
    /// `TooLarge` beyond [`MAX_BYTES`]; `Unavailable` (`disk_full`); `Internal` when the disk or the stream fails. Nothing is
    /// stored then, nor when the caller drops the future.
    pub async fn store(
        &self,
        account: AccountId,
        tool: &str,
        content: impl Stream<Item = io::Result<Bytes>>,
    ) -> Result<u64> {
        let folder = self.folder.join(account.to_string());
        fs::create_dir_all(&folder).await.map_err(|error| failed("make", &folder, &error))?;
        let id = Uuid::new_v4().simple();
        let path = folder.join(format!("{:013}.{tool}.{id}.{ARCHIVE}", clock::now().as_i64()));
        // Its drop removes the file, unless it has its final name by then.
        let fresh = TempPath::try_from_path(path.with_extension(UNFINISHED)).map_err(Error::internal)?;
        let bytes = self.receive(&fresh, content).await?;
        fs::rename(&fresh, &path).await.map_err(|error| failed("rename", &path, &error))?;
        sync(&folder).await?;
        self.trim(account).await?;
        self.evict(MAX_TOTAL_BYTES, FREE_RESERVE).await?;
        Ok(bytes)
    }

    /// Removes the oldest archives of all accounts while less than [`FREE_RESERVE`] of the disk is free.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn make_room(&self) -> Result<()> {
        if free_bytes(&self.folder)? >= FREE_RESERVE {
            return Ok(());
        }
        self.evict(MAX_TOTAL_BYTES, FREE_RESERVE).await
    }

    /// Removes the oldest archives of all accounts until the rest has at most `most` bytes, and `reserve` bytes are free.
    async fn evict(&self, most: u64, reserve: u64) -> Result<()> {
        let folder = self.folder.clone();
        let listed = hotdesk_base::tasks::spawn_blocking(move || -> Result<Vec<Archive>> {
            let mut archives = Vec::new();
            for account in entries(&folder)? {
                archives.extend(entries(&account)?.into_iter().filter_map(|path| archive(path, ARCHIVE)));
            }
            Ok(archives)
        });
        let mut archives: Vec<Archive> = listed.await.map_err(Error::internal)??;
        archives.sort_by_key(|archive| archive.stored_at);
        let mut bytes = archives.iter().map(|archive| archive.bytes).sum::<u64>();
        for archive in archives {
            if bytes <= most && free_bytes(&self.folder)? >= reserve {
                break;
            }
            remove(&archive.path).await?;
            bytes -= archive.bytes;
        }
        Ok(())
    }

    /// Writes an archive to the disk, within the bounds.
    async fn receive(&self, path: &Path, content: impl Stream<Item = io::Result<Bytes>>) -> Result<u64> {
        let wrong = |error: io::Error| failed("write", path, &error);
        let mut file = File::create(path).await.map_err(wrong)?;
        let mut bytes = 0;
        let mut content = std::pin::pin!(content);
        while let Some(piece) = content.next().await {
            let piece = piece
                .map_err(|error| Error::unavailable("the downloads of a build broke off").context(error))?;
            bytes += piece.len() as u64;
            if bytes > MAX_BYTES {
                let message = format!("the downloads of one layer have more than {MAX_BYTES} bytes");
                return Err(Error::too_large(message));
            }
            check_free_space(&self.folder, FREE_RESERVE, piece.len() as u64)?;
            file.write_all(&piece).await.map_err(wrong)?;
        }
        file.sync_all().await.map_err(wrong)?;
        Ok(bytes)
    }

    /// Removes the oldest archives of an account until the rest is within its bounds.
    async fn trim(&self, account: AccountId) -> Result<()> {
        let archives = self.of(account, ARCHIVE).await?;
        let (mut count, mut bytes) =
            (archives.len(), archives.iter().map(|archive| archive.bytes).sum::<u64>());
        for archive in archives {
            if count <= MAX_ARCHIVES && bytes <= MAX_BYTES {
                break;
            }
            remove(&archive.path).await?;
            (count, bytes) = (count - 1, bytes - archive.bytes);
        }
        Ok(())
    }

    /// Removes the caches of accounts that are not among `accounts`, archives older than [`MAX_AGE`], and unfinished ones older
    /// than [`MAX_UNFINISHED_AGE`]. Returns the bytes of the archives that stay.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn sweep(&self, accounts: &HashSet<AccountId>) -> Result<u64> {
        let (folder, mut bytes) = (self.folder.clone(), 0);
        let folders = hotdesk_base::tasks::spawn_blocking(move || entries(&folder))
            .await
            .map_err(Error::internal)??;
        for folder in folders {
            let account = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(account) = account.filter(|account| accounts.contains(account)) else {
                fs::remove_dir_all(&folder).await.map_err(|error| failed("remove", &folder, &error))?;
                continue;
            };
            for archive in self.of(account, ARCHIVE).await? {
                if archive.is_older_than(MAX_AGE) {
                    remove(&archive.path).await?;
                } else {
                    bytes += archive.bytes;
                }
            }
            for unfinished in self.of(account, UNFINISHED).await? {
                if unfinished.is_older_than(MAX_UNFINISHED_AGE) {
                    remove(&unfinished.path).await?;
                }
            }
        }
        Ok(bytes)
    }

    /// The archives of an account whose names have this end, the oldest first.
    async fn of(&self, account: AccountId, extension: &'static str) -> Result<Vec<Archive>> {
        let folder = self.folder.join(account.to_string());
        let listed = hotdesk_base::tasks::spawn_blocking(move || entries(&folder))
            .await
            .map_err(Error::internal)??;
        let mut archives: Vec<Archive> =
            listed.into_iter().filter_map(|path| archive(path, extension)).collect();
        archives.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(archives)
    }
}

impl Archive {
    fn is_older_than(&self, limit: Duration) -> bool {
        clock::now().since(self.stored_at).is_some_and(|age| age >= limit)
    }
}

/// The archive of a path; `None` for another file.
fn archive(path: PathBuf, extension: &str) -> Option<Archive> {
    let name = path.file_name()?.to_str()?.strip_suffix(extension)?.strip_suffix('.')?;
    let mut parts = name.split('.');
    let (stored_at, tool) = (UnixMillis::new(parts.next()?.parse().ok()?), parts.next()?.to_owned());
    let bytes = path.metadata().ok()?.len();
    Some(Archive { path, tool, stored_at, bytes })
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}

/// The paths in a folder; none in a missing one. Blocks.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    listed.map_err(|error| failed("list", folder, &error))
}

/// Removes an archive; a missing one counts as removed.
///
/// # Errors
/// `Internal` when the disk fails.
pub async fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Syncs the entries of a folder to the disk.
async fn sync(folder: &Path) -> Result<()> {
    let synced = async { File::open(folder).await?.sync_all().await };
    synced.await.map_err(|error| failed("sync", folder, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(size: usize) -> impl Stream<Item = io::Result<Bytes>> {
        futures_util::stream::iter([Ok(Bytes::from(vec![b'x'; size]))])
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn archives_are_of_one_account_and_of_one_tool_and_the_newest_fit() {
        let data = tempfile::tempdir().unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        let (own, other) = (AccountId::random(), AccountId::random());
        let folder = data.path().join("downloads").join(own.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        for (name, size) in
            [("0000000000001.apt.tar", 30), ("0000000000002.pip.tar", 5), ("0000000000003.apt.tar", 20)]
        {
            std::fs::write(folder.join(name), vec![0; size]).unwrap();
        }
        let chosen = async |account, most| {
            let paths = caches.archives(account, "apt", most).await.unwrap();
            paths
                .iter()
                .map(|path| path.file_name().unwrap().to_string_lossy()[12..13].to_owned())
                .collect::<String>()
        };
        assert_eq!(chosen(own, 50).await, "13");
        assert_eq!(chosen(own, 49).await, "3");
        assert_eq!(chosen(own, 19).await, "");
        assert_eq!(chosen(other, 50).await, "");
        assert_eq!(caches.store(own, "apt", content(7)).await.unwrap(), 7);
        assert_eq!(caches.archives(own, "apt", 57).await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn the_oldest_archives_make_room_and_old_and_foreign_ones_go() {
        let data = tempfile::tempdir().unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        let (own, gone) = (AccountId::random(), AccountId::random());
        let folder = data.path().join("downloads").join(own.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let now = clock::now().as_i64() - 10_000;
        for number in 0..MAX_ARCHIVES as i64 {
            std::fs::write(folder.join(format!("{:013}.npm.tar", now + number)), "x").unwrap();
        }
        caches.store(own, "npm", content(1)).await.unwrap();
        assert_eq!(names(&folder).len(), MAX_ARCHIVES);
        assert_eq!(names(&folder)[0], format!("{:013}.npm.tar", now + 1));
        // A sparse file of the largest size: everything before it goes.
        let large = std::fs::File::create(folder.join(format!("{:013}.npm.tar", now + 5_000))).unwrap();
        large.set_len(MAX_BYTES).unwrap();
        caches.store(own, "npm", content(1)).await.unwrap();
        assert_eq!(names(&folder).len(), 2, "the newest two: {:?}", names(&folder));

        let receiving = format!("{:013}.apt.new", clock::now().as_i64());
        for name in ["0000000000001.apt.tar", "0000000000001.apt.new", &receiving] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        caches.store(gone, "apt", content(3)).await.unwrap();
        assert_eq!(caches.sweep(&HashSet::from([own])).await.unwrap(), 2);
        let left = names(&folder);
        assert!(left.len() == 3 && left.contains(&receiving), "{left:?}");
        assert_eq!(names(&data.path().join("downloads")), [own.to_string()]);
    }

    #[tokio::test]
    async fn t20_the_oldest_archives_of_all_accounts_go_first_and_all_go_when_the_disk_is_short() {
        let data = tempfile::tempdir().unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        let folders = [(); 3].map(|()| data.path().join("downloads").join(AccountId::random().to_string()));
        for (number, folder) in folders.iter().enumerate() {
            std::fs::create_dir_all(folder).unwrap();
            for (place, size) in [(0, 10), (3, 20)] {
                let path = folder.join(format!("{:013}.apt.x.tar", number + place));
                std::fs::File::create(path).unwrap().set_len(size).unwrap();
            }
        }
        let left = || folders.each_ref().map(|folder| names(folder).len());
        caches.evict(90, 0).await.unwrap();
        assert_eq!(left(), [2, 2, 2]);
        caches.evict(70, 0).await.unwrap();
        assert_eq!(left(), [1, 1, 2]);
        caches.evict(60, 0).await.unwrap();
        assert_eq!(left(), [1, 1, 1]);
        caches.evict(u64::MAX, u64::MAX).await.unwrap();
        assert_eq!(left(), [0, 0, 0]);
        // A sparse archive counts with its length: many accounts together are bounded, too.
        for folder in &folders {
            let path = folder.join("0000000000001.apt.x.tar");
            std::fs::File::create(path).unwrap().set_len(MAX_TOTAL_BYTES / 2).unwrap();
        }
        caches.store(AccountId::random(), "apt", content(1)).await.unwrap();
        assert_eq!(left().iter().sum::<usize>(), 1);
    }

    #[tokio::test]
    async fn an_archive_whose_build_is_cancelled_leaves_nothing() {
        let data = tempfile::tempdir().unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        let account = AccountId::random();
        let folder = data.path().join("downloads").join(account.to_string());
        let (begun, receiving) = tokio::sync::oneshot::channel();
        let stalled = futures_util::stream::once(async move {
            begun.send(()).unwrap();
            std::future::pending().await
        });
        let seen = tokio::select! {
            stored = caches.store(account, "pip", content(1).chain(stalled)) => panic!("{stored:?}"),
            present = async {
                receiving.await.unwrap();
                names(&folder).len()
            } => present,
        };
        assert_eq!((seen, names(&folder)), (1, Vec::new()));
    }

    #[tokio::test]
    async fn an_archive_that_breaks_off_is_not_stored_and_a_crash_leaves_none() {
        let data = tempfile::tempdir().unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        let account = AccountId::random();
        let folder = data.path().join("downloads").join(account.to_string());
        let broken =
            futures_util::stream::iter([Ok(Bytes::from_static(b"x")), Err(io::Error::other("gone"))]);
        caches.store(account, "pip", broken).await.unwrap_err();
        assert_eq!(names(&folder), Vec::<String>::new());
        std::fs::write(folder.join("1.pip.new"), "half").unwrap();
        let caches = DownloadCaches::open(data.path()).unwrap();
        assert_eq!(names(&folder), Vec::<String>::new());
        assert!(caches.archives(account, "pip", u64::MAX).await.unwrap().is_empty());
    }
}
