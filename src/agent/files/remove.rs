//! Removal of files and folders: never through a link or on another file system, with a count of what was
//! removed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::files::paths::{EntryHandle, enter, without_slash};
use crate::files::write::temp_file::stat_entry;
use crate::files::{errno, not_empty};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::files::guest_file::{DeleteQuery, DeleteResult};

/// Timeout of a removal: some ten million files.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// Deepest folder level; each level needs two open file descriptors.
const MAX_DEPTH: usize = 200;

/// Removes the entry of a path. `stop` ends the removal early; already removed files are not restored.
///
/// # Errors
/// `Invalid` (`protected_path`) for `/` and the home folder; `NotFound`; `Conflict` (`not_empty`,
/// `other_file_system`, `too_deep`); `TimedOut` with the number of removed `files`.
pub fn remove(home: &Path, query: &DeleteQuery, stop: &CancellationToken) -> Result<DeleteResult> {
    let entry_handle = EntryHandle::for_existing(home, without_slash(&query.path))?;
    let facts = stat_entry(&entry_handle.folder, &entry_handle.name, &entry_handle.path)?;
    let facts = facts.ok_or_else(|| errno(&entry_handle.path, Errno::NOENT))?;
    let mut work = Removal {
        removed: DeleteResult { path: entry_handle.path.clone(), ..DeleteResult::default() },
        device: facts.st_dev,
        recursive: query.recursive,
        until: Instant::now() + TIMEOUT,
        stop,
    };
    work.remove_entry(&entry_handle.folder, Path::new(&entry_handle.name), &facts, 0)?;
    Ok(work.removed)
}

struct Removal<'a> {
    removed: DeleteResult,
    device: u64,
    recursive: bool,
    until: Instant,
    stop: &'a CancellationToken,
}

impl Removal<'_> {
    fn remove_entry(&mut self, folder: &impl AsFd, name: &Path, facts: &Stat, depth: usize) -> Result<()> {
        if FileType::from_raw_mode(facts.st_mode) != FileType::Directory {
            return match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) => {
                    self.removed.files += 1;
                    self.removed.bytes += u64::try_from(facts.st_size).unwrap_or_default();
                    Ok(())
                }
                Err(error) => self.ignore_missing(error),
            };
        }
        if self.recursive {
            match enter(folder, name) {
                Ok(inside) => self.empty_folder(&inside, depth)?,
                Err(error) => return self.ignore_missing(error),
            }
        }
        match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.removed.folders += 1;
                Ok(())
            }
            Err(Errno::NOTEMPTY) => Err(not_empty(&self.removed.path)),
            Err(error) => self.ignore_missing(error),
        }
    }

    fn empty_folder(&mut self, folder: &OwnedFd, depth: usize) -> Result<()> {
        let path = self.removed.path.clone();
        let fail = |error: Errno| errno(&path, error);
        if depth >= MAX_DEPTH {
            return Err(
                Error::conflict(format!("{path}: folders deeper than {MAX_DEPTH}")).code(ErrorCode::TooDeep)
            );
        }
        if rustix::fs::fstat(folder).map_err(fail)?.st_dev != self.device {
            let what = format!("{path}: another file system is mounted inside");
            return Err(Error::conflict(what).code(ErrorCode::OtherFileSystem));
        }
        let mut entries = Dir::read_from(folder).map_err(fail)?;
        while let Some(read) = entries.read() {
            if self.stop.is_cancelled() || Instant::now() > self.until {
                let gone = i64::try_from(self.removed.files).unwrap_or(i64::MAX);
                return Err(Error::timed_out(format!(
                    "{path}: the removal did not finish in time; repeat it"
                ))
                .number("files", gone));
            }
            let read = read.map_err(fail)?;
            let name = read.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(facts) => self.remove_entry(folder, name, &facts, depth + 1)?,
                Err(error) => self.ignore_missing(error)?,
            }
        }
        Ok(())
    }

    /// An entry that vanished meanwhile counts as removed.
    fn ignore_missing(&self, error: Errno) -> Result<()> {
        if error == Errno::NOENT { Ok(()) } else { Err(errno(&self.removed.path, error)) }
    }
}

/// Removes one of the agent's own folders with its content.
///
/// # Errors
/// Those of [`remove`].
pub fn tree(folder: &OwnedFd, name: &str) -> Result<()> {
    let Some(facts) = stat_entry(folder, name, name)? else { return Ok(()) };
    let stop = CancellationToken::new();
    let mut work = Removal {
        removed: DeleteResult { path: name.to_owned(), ..DeleteResult::default() },
        device: facts.st_dev,
        recursive: true,
        until: Instant::now() + TIMEOUT,
        stop: &stop,
    };
    work.remove_entry(folder, Path::new(name), &facts, 0)
}
