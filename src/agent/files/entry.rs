//! Metadata of files and folders in the form of the API. Links are not followed.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat as Facts};

use crate::files::{errno, paths};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;
use hotdesk_wire::files::guest_file::{EntryType, FolderEntry, Stat};

/// Returns the metadata of a path.
///
/// # Errors
/// `NotFound`; `Invalid` for a malformed path; `Forbidden`.
pub fn stat(home: &Path, path: &str) -> Result<Stat> {
    paths::resolve(home, path, |full| {
        let here = rustix::fs::CWD;
        let facts =
            rustix::fs::statat(here, full, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| errno(path, error))?;
        let name = full.file_name().map_or("/".into(), |name| name.to_string_lossy().into_owned());
        let mut entry = describe(name, &facts);
        if entry.kind == EntryType::Link {
            entry.target = target(here, full);
        }
        Ok(Stat { path: full.to_string_lossy().into_owned(), entry })
    })
}

/// Returns the entry of a name; the target of a link is not set yet.
pub fn describe(name: String, facts: &Facts) -> FolderEntry {
    let kind = match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile => EntryType::File,
        FileType::Directory => EntryType::Folder,
        FileType::Symlink => EntryType::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => EntryType::Special,
    };
    let modified = UnixMillis::from_seconds(facts.st_mtime, facts.st_mtime_nsec as i64);
    FolderEntry {
        name,
        kind,
        size: u64::try_from(facts.st_size).unwrap_or_default(),
        mode: format!("{:04o}", facts.st_mode & 0o7777),
        modified_at: modified.iso8601(),
        target: None,
    }
}

/// Target of a link; `None` when the link has vanished.
pub fn target(folder: impl AsFd, name: &Path) -> Option<String> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(target.to_string_lossy().into_owned())
}
