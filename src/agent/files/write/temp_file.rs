//! How does a file appear under its name? Whole, in one step, and never over another unless asked to (threats.md T7).

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::{already_exists, errno, file_error, is_a_folder};
use hotdesk_domain::error::Result;

/// What the name of an unfinished file or folder begins with.
pub const TEMPORARY: &str = ".hotdesk-upload-";

/// What happens to something of that name, and what the new file is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placing {
    /// Replace it.
    pub overwrite: bool,
    /// Permissions; when absent those of the replaced file, else `0644`.
    pub mode: Option<u32>,
}

/// A file under a temporary name, removed when dropped.
#[derive(Debug)]
pub struct Unfinished {
    folder: OwnedFd,
    name: String,
}

/// A name that nobody else takes.
pub fn temporary_name() -> String {
    format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple())
}

impl Unfinished {
    /// A new file in a folder.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn create(folder: &impl AsFd, shown: &str) -> Result<(Self, File)> {
        let folder = folder.as_fd().try_clone_to_owned().map_err(|error| file_error(shown, &error))?;
        let name = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| errno(shown, error))?;
        Ok((Self { folder, name }, File::from(file)))
    }

    /// Gives the file its name; true when it replaced something. Everything is on the disk before and after.
    ///
    /// # Errors
    /// `Conflict` (`already_exists`, `is_a_folder`); nothing is left then.
    pub fn finish(self, file: &File, name: &str, placing: Placing, shown: &str) -> Result<bool> {
        settle(file, &self.folder, name, placing, shown)?;
        rename(&self.folder, &self.name, &self.folder, name, placing.overwrite, shown)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            // No such file: it has its own name now.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::warn!(name = self.name, %error, "could not remove an unfinished upload"),
        }
    }
}

/// What has a name, if anything.
///
/// # Errors
/// When the file system fails.
pub fn look(folder: &impl AsFd, name: &str, shown: &str) -> Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(facts)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(errno(shown, error)),
    }
}

/// Refuses early what would be refused at the end.
///
/// # Errors
/// `Conflict` (`already_exists`, `is_a_folder`).
pub fn check_free(folder: &impl AsFd, name: &str, overwrite: bool, shown: &str) -> Result<()> {
    match look(folder, name, shown)? {
        None => Ok(()),
        Some(_) if !overwrite => Err(already_exists(shown)),
        Some(facts) if FileType::from_raw_mode(facts.st_mode) == FileType::Directory => {
            Err(is_a_folder(shown))
        }
        Some(_) => Ok(()),
    }
}

/// Gives a file the permissions that it will have under its name, and brings it to the disk.
///
/// # Errors
/// When the file system fails.
pub fn settle(file: &File, folder: &impl AsFd, name: &str, placing: Placing, shown: &str) -> Result<()> {
    let replaced = if placing.overwrite { look(folder, name, shown)? } else { None };
    let replaced = replaced.filter(|old| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile);
    let mode = match (placing.mode, &replaced) {
        (Some(mode), _) => mode,
        (None, Some(old)) => old.st_mode & 0o777,
        (None, None) => 0o644,
    };
    if let Some(old) = replaced
        && rustix::process::geteuid().is_root()
    {
        // Root that replaces a user's file leaves it the user's.
        let owner = Some(rustix::fs::Uid::from_raw(old.st_uid));
        let group = Some(rustix::fs::Gid::from_raw(old.st_gid));
        rustix::fs::fchown(file, owner, group).map_err(|error| errno(shown, error))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(|error| errno(shown, error))?;
    file.sync_all().map_err(|error| file_error(shown, &error))
}

/// Moves a name; true when it replaced something.
///
/// # Errors
/// `Conflict` (`already_exists`, `is_a_folder`), and what the file system says.
pub fn rename(
    from: &impl AsFd,
    old: &str,
    to: &impl AsFd,
    new: &str,
    overwrite: bool,
    shown: &str,
) -> Result<bool> {
    let replaced = match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Ok(()) => false,
        Err(Errno::EXIST) if overwrite => {
            rustix::fs::renameat(from, old, to, new).map_err(|error| errno(shown, error))?;
            true
        }
        Err(error) => return Err(errno(shown, error)),
    };
    rustix::fs::fsync(to).map_err(|error| errno(shown, error))?;
    Ok(replaced)
}
