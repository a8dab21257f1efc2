//! Merge of an extracted archive into an existing folder: folders are merged, other entries renamed into
//! place.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, RenameFlags};
use rustix::io::Errno;

use crate::files::paths::enter;
use crate::files::{already_exists, errno};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Checks the merge before anything is moved.
///
/// # Errors
/// `Conflict` (`already_exists`) with the path, when an entry exists and `overwrite` is not set, or a file
/// and a folder have the same name.
pub fn check(from: &OwnedFd, to: &OwnedFd, overwrite: bool, shown: &str) -> Result<()> {
    for name in names(from, shown)? {
        let here = format!("{shown}/{}", name.to_string_lossy());
        let Some(there) = kind(to, &name, &here)? else { continue };
        let ours = kind(from, &name, &here)? == Some(FileType::Directory);
        match (ours, there == FileType::Directory) {
            (true, true) => {
                check(&folder(from, &name, &here)?, &folder(to, &name, &here)?, overwrite, &here)?;
            }
            (false, false) if overwrite => {}
            (false, false) => return Err(already_exists(&here)),
            (true, false) | (false, true) => return Err(type_mismatch(&here)),
        }
    }
    Ok(())
}

/// Moves all entries. The staging folder is inside `to`, so no rename crosses a file system unless one is
/// mounted there.
///
/// # Errors
/// `Conflict` when a file and a folder have the same name, or an entry was created since [`check`].
pub fn merge(from: &OwnedFd, to: &OwnedFd, overwrite: bool, shown: &str) -> Result<()> {
    for name in names(from, shown)? {
        let here = format!("{shown}/{}", name.to_string_lossy());
        let fail = |error: Errno| errno(&here, error);
        match rustix::fs::renameat_with(from, name.as_c_str(), to, name.as_c_str(), RenameFlags::NOREPLACE) {
            Ok(()) => continue,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(fail(error)),
        }
        let ours = kind(from, &name, &here)? == Some(FileType::Directory);
        let theirs = kind(to, &name, &here)? == Some(FileType::Directory);
        match (ours, theirs) {
            (true, true) => {
                merge(&folder(from, &name, &here)?, &folder(to, &name, &here)?, overwrite, &here)?
            }
            (false, false) if overwrite => {
                rustix::fs::renameat(from, name.as_c_str(), to, name.as_c_str()).map_err(fail)?;
            }
            (false, false) => return Err(already_exists(&here)),
            (true, false) | (false, true) => return Err(type_mismatch(&here)),
        }
    }
    Ok(())
}

fn type_mismatch(shown: &str) -> Error {
    Error::conflict(format!("{shown}: one is a folder and the other is not")).code(ErrorCode::AlreadyExists)
}

fn names(folder: &OwnedFd, shown: &str) -> Result<Vec<CString>> {
    let fail = |error: Errno| errno(shown, error);
    let mut names = Vec::new();
    let mut entries = Dir::read_from(folder).map_err(fail)?;
    while let Some(read) = entries.read() {
        let name = read.map_err(fail)?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn kind(folder: &OwnedFd, name: &CString, shown: &str) -> Result<Option<FileType>> {
    match rustix::fs::statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(FileType::from_raw_mode(facts.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(errno(shown, error)),
    }
}

fn folder(holder: &OwnedFd, name: &CString, shown: &str) -> Result<OwnedFd> {
    enter(holder, name.as_c_str()).map_err(|error| errno(shown, error))
}
