//! Temporary files that get their final name in one step when they are complete (T7, docs/security.md).
//!
//! A rename replaces another file only on request.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use crate::files::write::version::ExpectedVersion;
use crate::files::{already_exists, errno, file_error, is_a_folder};
use hotdesk_domain::error::Result;

/// Prefix of the names of temporary files and folders.
pub const TEMPORARY: &str = ".hotdesk-upload-";

/// Handling of an existing entry, and permissions of the new file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// Permissions; absent: those of the replaced file, else `0644`.
    pub mode: Option<u32>,
    /// Time of modification in Unix seconds; absent: now.
    pub modified: Option<i64>,
}

/// Held while an entry gets its name: what [`TempFile::replace`] has checked stays true until its own rename.
/// A rename takes microseconds, so that the whole computer has one lock.
static RENAMING: Mutex<()> = Mutex::new(());

fn renaming() -> MutexGuard<'static, ()> {
    RENAMING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file with a temporary name, removed when dropped.
#[derive(Debug)]
pub struct TempFile {
    folder: OwnedFd,
    name: String,
}

/// A unique temporary name.
pub fn temporary_name() -> String {
    format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple())
}

impl TempFile {
    /// Creates a file in a folder.
    ///
    /// # Errors
    /// When the folder cannot be written to. `shown` names the file in error messages.
    pub fn create(folder: &impl AsFd, shown: &str) -> Result<(Self, File)> {
        let folder = folder.as_fd().try_clone_to_owned().map_err(|error| file_error(shown, &error))?;
        let name = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| errno(shown, error))?;
        Ok((Self { folder, name }, File::from(file)))
    }

    /// Renames the file to its final name; true when it replaced another one. The data is on the disk before,
    /// and the name after.
    ///
    /// # Errors
    /// `Conflict` (`already_exists`, `is_a_folder`); the temporary file is removed then.
    pub fn finish(self, file: &File, name: &str, options: WriteOptions, shown: &str) -> Result<bool> {
        settle(file, &self.folder, name, options, shown)?;
        rename(&self.folder, &self.name, &self.folder, name, options.overwrite, shown)
    }

    /// Does the same if the file of that name is the expected version.
    ///
    /// # Errors
    /// Those of [`Self::finish`] and [`ExpectedVersion::check`]; the temporary file is removed then.
    pub fn replace(
        self,
        file: &File,
        name: &str,
        options: WriteOptions,
        expected: &ExpectedVersion,
        shown: &str,
    ) -> Result<bool> {
        settle(file, &self.folder, name, options, shown)?;
        let turn = renaming();
        expected.check(&self.folder, name, shown)?;
        let replaced = put_name(&self.folder, &self.name, &self.folder, name, options.overwrite, shown)?;
        drop(turn);
        sync_folder(&self.folder, shown)?;
        Ok(replaced)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            // NOENT: the file has its final name.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => {
                tracing::warn!(name = self.name, %error, "cannot remove the temporary file of an unfinished upload")
            }
        }
    }
}

/// Metadata of an entry without following a link; `None` when it does not exist.
///
/// # Errors
/// When the file system fails.
pub fn stat_entry(folder: &impl AsFd, name: &str, shown: &str) -> Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(facts)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(errno(shown, error)),
    }
}

/// Checks that a name is free, to refuse an upload before its body is read.
///
/// # Errors
/// `Conflict` (`already_exists`, `is_a_folder`).
pub fn check_free(folder: &impl AsFd, name: &str, overwrite: bool, shown: &str) -> Result<()> {
    match stat_entry(folder, name, shown)? {
        None => Ok(()),
        Some(_) if !overwrite => Err(already_exists(shown)),
        Some(facts) if FileType::from_raw_mode(facts.st_mode) == FileType::Directory => {
            Err(is_a_folder(shown))
        }
        Some(_) => Ok(()),
    }
}

/// Sets the final permissions and owner of a file and writes it to the disk.
///
/// # Errors
/// When the file system fails.
pub fn settle(file: &File, folder: &impl AsFd, name: &str, options: WriteOptions, shown: &str) -> Result<()> {
    let replaced = if options.overwrite { stat_entry(folder, name, shown)? } else { None };
    let replaced = replaced.filter(|old| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile);
    let mode = match (options.mode, &replaced) {
        (Some(mode), _) => mode,
        (None, Some(old)) => old.st_mode & 0o777,
        (None, None) => 0o644,
    };
    if let Some(old) = replaced
        && rustix::process::geteuid().is_root()
    {
        // A file that root replaces keeps its owner.
        let owner = Some(rustix::fs::Uid::from_raw(old.st_uid));
        let group = Some(rustix::fs::Gid::from_raw(old.st_gid));
        rustix::fs::fchown(file, owner, group).map_err(|error| errno(shown, error))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(|error| errno(shown, error))?;
    if let Some(modified) = options.modified {
        rustix::fs::futimens(file, &times(modified)).map_err(|error| errno(shown, error))?;
    }
    file.sync_all().map_err(|error| file_error(shown, &error))
}

/// The same time, in Unix seconds, for access and modification.
pub fn times(modified: i64) -> Timestamps {
    let at = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

/// Renames an entry; true when it replaced another one.
///
/// # Errors
/// `Conflict` (`already_exists`, `is_a_folder`); those of the file system.
pub fn rename(
    from: &impl AsFd,
    old: &str,
    to: &impl AsFd,
    new: &str,
    overwrite: bool,
    shown: &str,
) -> Result<bool> {
    let turn = renaming();
    let replaced = put_name(from, old, to, new, overwrite, shown)?;
    drop(turn);
    sync_folder(to, shown)?;
    Ok(replaced)
}

/// Renames an entry, whose new name need not be on the disk yet. The caller holds [`RENAMING`].
fn put_name(
    from: &impl AsFd,
    old: &str,
    to: &impl AsFd,
    new: &str,
    overwrite: bool,
    shown: &str,
) -> Result<bool> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(false),
        Err(Errno::EXIST) if overwrite => {
            rustix::fs::renameat(from, old, to, new).map_err(|error| errno(shown, error))?;
            Ok(true)
        }
        Err(error) => Err(errno(shown, error)),
    }
}

fn sync_folder(folder: &impl AsFd, shown: &str) -> Result<()> {
    rustix::fs::fsync(folder).map_err(|error| errno(shown, error))
}
