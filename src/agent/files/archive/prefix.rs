//! Digest of the first entries of an archive, by which a receiver knows that what it has is still true
//! (docs/api/files.md#folders-as-tar).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::files::archive::walk::{header, walk};
use crate::files::file_error;
use crate::files::paths::enter;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Result;

/// Digest of entries in their order, in hexadecimal; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesDigest(String);

impl EntriesDigest {
    /// Adds an entry: its kind, permissions, size, time of modification, path and link target. The time of a folder
    /// is left out, because it changes with the entries in it.
    pub fn add(&mut self, header: &Header, path: &Path, target: &Path) {
        let kind = header.entry_type();
        let modified = if kind == EntryType::Directory { 0 } else { header.mtime().unwrap_or_default() };
        let mode = u64::from(header.mode().unwrap_or_default() & 0o777);
        let mut digest = Sha256::new();
        digest.update(&self.0);
        digest.update([kind.as_byte()]);
        for number in [mode, header.entry_size().unwrap_or_default(), modified] {
            digest.update(number.to_le_bytes());
        }
        for text in [path, target] {
            digest.update(text.as_os_str().as_bytes());
            digest.update([0]);
        }
        self.0 = hex(&digest.finalize());
    }

    /// The value of `If-Match`.
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// Digest of a folder's entries up to a path relative to it, which are those that [`super::pack::pack`] leaves out.
///
/// # Errors
/// When the folder cannot be read, is too deep or too large.
pub fn digest(folder: &OwnedFd, last: &Path) -> Result<EntriesDigest> {
    let mut digest = EntriesDigest::default();
    let walked = walk(folder, &mut |holder, name, path| {
        if path > last {
            return Ok(None);
        }
        let facts = rustix::fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => {
                let inside = enter(holder, name)?;
                digest.add(&header(&facts, EntryType::Directory, 0), path, Path::new(""));
                return Ok(Some(inside));
            }
            FileType::RegularFile => {
                let size = u64::try_from(facts.st_size).unwrap_or_default();
                digest.add(&header(&facts, EntryType::Regular, size), path, Path::new(""));
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(holder, name, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                digest.add(&header(&facts, EntryType::Symlink, 0), path, target);
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        Ok(None)
    });
    walked.map_err(|error| file_error(&last.to_string_lossy(), &error))?;
    Ok(digest)
}
