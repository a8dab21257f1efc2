//! How is something removed? Never through a link, never on another file system, and what went is counted.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::paths::{Spot, enter, without_slash};
use super::unfinished::look;
use super::{OTHER_FILE_SYSTEM, errno, not_empty};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::guest_file::{DeleteQuery, Deleted};

/// Longest time: some ten million files.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// Deepest folder that is entered; two descriptors are open for each.
const MAX_DEPTH: usize = 200;

/// Removes what a path names. `stop` ends the work early; what is gone by then stays gone.
///
/// # Errors
/// `Invalid` for `/` and the home folder; `Conflict` (`not_empty`, `other_file_system`); `TimedOut`.
pub fn remove(home: &Path, query: &DeleteQuery, stop: &CancellationToken) -> Result<Deleted> {
    let spot = Spot::existing(home, without_slash(&query.path))?;
    let facts = look(&spot.folder, &spot.name, &spot.path)?;
    let facts = facts.ok_or_else(|| errno(&spot.path, Errno::NOENT))?;
    let mut work = Removal {
        gone: Deleted { path: spot.path.clone(), ..Deleted::default() },
        device: facts.st_dev,
        recursive: query.recursive,
        until: Instant::now() + TIMEOUT,
        stop,
    };
    work.one(&spot.folder, Path::new(&spot.name), &facts, 0)?;
    Ok(work.gone)
}

struct Removal<'a> {
    gone: Deleted,
    device: u64,
    recursive: bool,
    until: Instant,
    stop: &'a CancellationToken,
}

impl Removal<'_> {
    fn one(&mut self, folder: &impl AsFd, name: &Path, facts: &Stat, depth: usize) -> Result<()> {
        if FileType::from_raw_mode(facts.st_mode) != FileType::Directory {
            return match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) => {
                    self.gone.files += 1;
                    self.gone.bytes += u64::try_from(facts.st_size).unwrap_or_default();
                    Ok(())
                }
                Err(error) => self.settle(error),
            };
        }
        if self.recursive {
            match enter(folder, name) {
                Ok(inside) => self.all_in(&inside, depth)?,
                Err(error) => return self.settle(error),
            }
        }
        match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.gone.folders += 1;
                Ok(())
            }
            Err(Errno::NOTEMPTY) => Err(not_empty(&self.gone.path)),
            Err(error) => self.settle(error),
        }
    }

    fn all_in(&mut self, folder: &OwnedFd, depth: usize) -> Result<()> {
        let path = self.gone.path.clone();
        let fail = |error: Errno| errno(&path, error);
        if depth >= MAX_DEPTH {
            return Err(Error::conflict(format!("{path}: folders deeper than {MAX_DEPTH}")).code("too_deep"));
        }
        if rustix::fs::fstat(folder).map_err(fail)?.st_dev != self.device {
            let what = format!("{path}: another file system is mounted inside");
            return Err(Error::conflict(what).code(OTHER_FILE_SYSTEM));
        }
        let mut entries = Dir::read_from(folder).map_err(fail)?;
        while let Some(read) = entries.read() {
            if self.stop.is_cancelled() || Instant::now() > self.until {
                let gone = i64::try_from(self.gone.files).unwrap_or(i64::MAX);
                return Err(
                    Error::timed_out(format!("{path}: not all removed in time")).number("files", gone)
                );
            }
            let read = read.map_err(fail)?;
            let name = read.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(facts) => self.one(folder, name, &facts, depth + 1)?,
                Err(error) => self.settle(error)?,
            }
        }
        Ok(())
    }

    /// What somebody else removed meanwhile is gone as well.
    fn settle(&self, error: Errno) -> Result<()> {
        if error == Errno::NOENT { Ok(()) } else { Err(errno(&self.gone.path, error)) }
    }
}

/// Removes a folder of our own with all that is in it.
///
/// # Errors
/// As [`remove`].
pub fn tree(folder: &OwnedFd, name: &str) -> Result<()> {
    let Some(facts) = look(folder, name, name)? else { return Ok(()) };
    let stop = CancellationToken::new();
    let mut work = Removal {
        gone: Deleted { path: name.to_owned(), ..Deleted::default() },
        device: facts.st_dev,
        recursive: true,
        until: Instant::now() + TIMEOUT,
        stop: &stop,
    };
    work.one(folder, Path::new(name), &facts, 0)
}
