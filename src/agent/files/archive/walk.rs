//! Walk through a folder in the order of an archive.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, Stat};
use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::files::paths;

/// Most entries of one archive.
const MAX_ENTRIES: u64 = 1_000_000;
/// Deepest folder level; each level needs an open file descriptor.
const MAX_DEPTH: usize = 200;

/// Visits an entry: gets the folder that holds it, its name and its path relative to the folder of the archive.
/// Returns the entry opened when its content is to follow.
pub(super) type Visit<'a> = dyn FnMut(&OwnedFd, &Path, &Path) -> io::Result<Option<OwnedFd>> + 'a;

/// Visits the entries below a folder. They are sorted by the bytes of their names, and a folder's content follows it, which
/// is the order of [`Path`]. hotdesk's own files are left out, and mounted file systems are not entered.
///
/// # Errors
/// When a folder cannot be read, is too deep or too large, or the visit fails. An entry that vanishes meanwhile is left out.
pub(super) fn walk(folder: &OwnedFd, visit: &mut Visit<'_>) -> io::Result<()> {
    let device = rustix::fs::fstat(folder)?.st_dev;
    Walk { entries: 0, device }.folder(folder, Path::new(""), 0, visit)
}

struct Walk {
    entries: u64,
    device: u64,
}

impl Walk {
    fn folder(
        &mut self,
        folder: &OwnedFd,
        prefix: &Path,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other(format!("{}: folders deeper than {MAX_DEPTH}", prefix.display())));
        }
        for name in sorted_names(folder, self.entries)? {
            self.entries += 1;
            let name = Path::new(OsStr::from_bytes(&name));
            let path = prefix.join(name);
            unless_vanished(visit(folder, name, &path).and_then(|inside| match inside {
                Some(inside) if rustix::fs::fstat(&inside)?.st_dev == self.device => {
                    self.folder(&inside, &path, depth + 1, visit)
                }
                _ => Ok(()),
            }))?;
        }
        Ok(())
    }
}

/// Names in a folder, sorted, for a walk that has visited `entries` already.
fn sorted_names(folder: &OwnedFd, entries: u64) -> io::Result<Vec<Vec<u8>>> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut found = Dir::read_from(folder)?;
    while let Some(read) = found.read() {
        let read = read?;
        let name = read.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !paths::is_reserved(&path.join(OsStr::from_bytes(name))) {
            names.push(name.to_owned());
        }
        if names.len() as u64 + entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Accepts that an entry vanished or changed its type meanwhile.
pub(super) fn unless_vanished(visited: io::Result<()>) -> io::Result<()> {
    match visited {
        Err(error)
            if matches!(
                error.raw_os_error().map(Errno::from_raw_os_error),
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Header of an entry, without its path.
pub(super) fn header(facts: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(facts.st_mode & 0o7777);
    header.set_uid(u64::from(facts.st_uid));
    header.set_gid(u64::from(facts.st_gid));
    header.set_mtime(u64::try_from(facts.st_mtime).unwrap_or_default());
    header
}
