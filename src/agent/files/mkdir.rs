//! Creation of folders.

use std::path::Path;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::files::errno;
use crate::files::paths::{EntryHandle, without_slash};
use crate::files::write::temp_file::stat_entry;
use crate::files::write::upload::parents;
use hotdesk_domain::error::Result;
use hotdesk_wire::files::guest_file::{FolderCreated, Mkdir, WriteOutcome};

/// Creates a folder.
///
/// # Errors
/// `Conflict` (`already_exists`), unless a folder exists and `parents` is set; `NotFound`; `Invalid` for a
/// bad path.
pub fn mkdir(home: &Path, wanted: &Mkdir) -> Result<FolderCreated> {
    let entry_handle = EntryHandle::for_new(home, without_slash(&wanted.path), parents(wanted.parents))?;
    let outcome =
        match rustix::fs::mkdirat(&entry_handle.folder, &entry_handle.name, Mode::from_raw_mode(0o755)) {
            Ok(()) => WriteOutcome::Created,
            Err(Errno::EXIST) if wanted.parents && is_folder(&entry_handle)? => WriteOutcome::Exists,
            Err(error) => return Err(errno(&entry_handle.path, error)),
        };
    rustix::fs::fsync(&entry_handle.folder).map_err(|error| errno(&entry_handle.path, error))?;
    Ok(FolderCreated { path: entry_handle.path, outcome })
}

fn is_folder(entry_handle: &EntryHandle) -> Result<bool> {
    let facts = stat_entry(&entry_handle.folder, &entry_handle.name, &entry_handle.path)?;
    Ok(facts.is_some_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory))
}
