//! What is there under a name? As clients see it; links are described themselves.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat as Facts};

use super::{errno, paths};
use hotdesk_base::clock::iso8601;
use hotdesk_domain::error::Result;
use hotdesk_wire::guest_file::{Entry, EntryType, Stat};

/// Describes what a path names.
///
/// # Errors
/// `NotFound`; `Invalid` for a path that cannot be one.
pub fn stat(home: &Path, path: &str) -> Result<Stat> {
    paths::look(home, path, |full| {
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

/// A name and its facts as clients see them; a link's target is not yet in it.
pub fn describe(name: String, facts: &Facts) -> Entry {
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
    let modified_ms =
        facts.st_mtime.saturating_mul(1000).saturating_add(facts.st_mtime_nsec as i64 / 1_000_000);
    Entry {
        name,
        kind,
        size: u64::try_from(facts.st_size).unwrap_or_default(),
        mode: format!("{:04o}", facts.st_mode & 0o7777),
        modified_at: iso8601(modified_ms),
        target: None,
    }
}

/// Where a link leads; `None` when it is gone meanwhile.
pub fn target(folder: impl AsFd, name: &Path) -> Option<String> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(target.to_string_lossy().into_owned())
}
