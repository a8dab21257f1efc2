//! Digest of the first entries of an archive, by which a receiver knows that what it has is still true
//! (docs/api/files.md#folders-as-tar).

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::files::archive::pack::{MAX_DEPTH, header, sorted_names, unless_vanished};
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
    let failed = |error: io::Error| file_error(&last.to_string_lossy(), &error);
    let device = rustix::fs::fstat(folder).map_err(|error| failed(error.into()))?.st_dev;
    let mut prefix = Prefix { digest: EntriesDigest::default(), entries: 0, device };
    prefix.add_folder(folder, Path::new(""), 0, Some(last)).map_err(failed)?;
    Ok(prefix.digest)
}

struct Prefix {
    digest: EntriesDigest,
    entries: u64,
    device: u64,
}

impl Prefix {
    /// Adds the content of a folder up to `last`, a path relative to it; all of it without one.
    fn add_folder(
        &mut self,
        folder: &OwnedFd,
        prefix: &Path,
        depth: usize,
        last: Option<&Path>,
    ) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other(format!("{}: folders deeper than {MAX_DEPTH}", prefix.display())));
        }
        let mut inside = last.map(Path::components);
        let first = inside.as_mut().map(|inside| inside.next().map_or(OsStr::new(""), |it| it.as_os_str()));
        for name in sorted_names(folder, self.entries)? {
            let name = OsStr::from_bytes(&name);
            if first.is_some_and(|first| name > first) {
                break;
            }
            self.entries += 1;
            let rest = inside.as_ref().filter(|_| first == Some(name)).map(|inside| inside.as_path());
            unless_vanished(self.add_entry(folder, Path::new(name), &prefix.join(name), depth, rest))?;
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        folder: &OwnedFd,
        name: &Path,
        path: &Path,
        depth: usize,
        last: Option<&Path>,
    ) -> io::Result<()> {
        let facts = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let size = u64::try_from(facts.st_size).unwrap_or_default();
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => {
                self.digest.add(&header(&facts, EntryType::Directory, 0), path, Path::new(""));
                if facts.st_dev == self.device && last != Some(Path::new("")) {
                    self.add_folder(&enter(folder, name)?, path, depth + 1, last)?;
                }
            }
            FileType::RegularFile => {
                self.digest.add(&header(&facts, EntryType::Regular, size), path, Path::new(""));
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                self.digest.add(&header(&facts, EntryType::Symlink, 0), path, target);
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        Ok(())
    }
}
