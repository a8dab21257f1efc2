//! Moves and renames of files; between file systems a file is copied to a temporary name and renamed.

use std::fs::File;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::files::paths::{EntryHandle, Parents, without_slash};
use crate::files::write::temp_file::{TempFile, WriteOptions, check_free, rename, stat_entry};
use crate::files::write::upload::outcome;
use crate::files::{errno, file_error};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::files::guest_file::{FileMoved, MoveFile};

/// Moves a file, a folder or a link.
///
/// # Errors
/// `NotFound`; `Invalid`; `Conflict` (`already_exists`, `not_empty`, `other_file_system`,
/// `path_through_link`). Nothing is changed then.
pub fn relocate(home: &Path, wanted: &MoveFile) -> Result<FileMoved> {
    let from = EntryHandle::for_existing(home, without_slash(&wanted.from))?;
    let to = EntryHandle::for_new(home, without_slash(&wanted.to), Parents::Required)?;
    let facts = stat_entry(&from.folder, &from.name, &from.path)?;
    let facts = facts.ok_or_else(|| errno(&from.path, Errno::NOENT))?;
    let renamed = rename_entry(&from, &to, wanted.overwrite);
    let replaced = match renamed {
        Err(None) if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile => {
            copy(&from, &to, wanted.overwrite, facts.st_mode & 0o777)?
        }
        Err(None) => {
            let what = format!("{}: only files can be moved to another file system", from.path);
            return Err(Error::conflict(what).code(ErrorCode::OtherFileSystem));
        }
        Err(Some(error)) => return Err(error),
        Ok(replaced) => replaced,
    };
    rustix::fs::fsync(&from.folder).map_err(|error| errno(&from.path, error))?;
    Ok(FileMoved { from: from.path, to: to.path, outcome: outcome(replaced) })
}

/// `Err(None)`: the two paths are on different file systems (also for a folder of the image below an
/// overlay).
fn rename_entry(from: &EntryHandle, to: &EntryHandle, overwrite: bool) -> Result<bool, Option<Error>> {
    let renamed = rename(&from.folder, &from.name, &to.folder, &to.name, overwrite, &to.path);
    renamed.map_err(|error| Some(error).filter(|error| error.code != Some(ErrorCode::OtherFileSystem)))
}

fn copy(from: &EntryHandle, to: &EntryHandle, overwrite: bool, mode: u32) -> Result<bool> {
    check_free(&to.folder, &to.name, overwrite, &to.path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(&from.folder, &from.name, flags, Mode::empty())
        .map_err(|error| errno(&from.path, error))?;
    let (unfinished, mut file) = TempFile::create(&to.folder, &to.path)?;
    std::io::copy(&mut File::from(source), &mut file).map_err(|error| file_error(&to.path, &error))?;
    let replaced = unfinished.finish(
        &file,
        &to.name,
        WriteOptions { overwrite, mode: Some(mode), modified: None },
        &to.path,
    )?;
    rustix::fs::unlinkat(&from.folder, &from.name, AtFlags::empty())
        .map_err(|error| errno(&from.path, error))?;
    Ok(replaced)
}
