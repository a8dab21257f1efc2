//! Who works on a machine right now? One verb at a time, whichever process it runs in; also the host-wide lock for
//! what all controllers of a host share.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::command::host_error;
use super::layout::{Folder, private_folder};
use crate::{EngineError, EngineResult};
use hotdesk_base::wait;

/// Longest wait for another verb on the same machine: a stop with a long grace and a slow disk.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Held while a verb works on a machine. The kernel lets go of it when its holder dies.
#[derive(Debug)]
pub(super) struct MachineLock {
    file: File,
}

impl MachineLock {
    /// A share in the lock, for a tool that must not be overtaken should the controller die: the lock is free when
    /// the last share is closed.
    pub(super) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Takes a machine's lock; `None` when the machine has no folder.
pub(super) async fn machine(folder: &Folder) -> EngineResult<Option<MachineLock>> {
    const STEP: &str = "lock the machine";
    let path = folder.path.join("lock");
    let taken = wait::until(TIMEOUT, || async {
        match try_lock(&path) {
            Ok(Tried::Taken(file)) => Some(Ok(Some(MachineLock { file }))),
            Ok(Tried::Absent) => Some(Ok(None)),
            Ok(Tried::Busy) => None,
            Err(error) => Some(Err(host_error(STEP, &path)(error))),
        }
    });
    taken.await.unwrap_or_else(|| {
        let detail = format!("{}: held for over {} s", path.display(), TIMEOUT.as_secs());
        Err(EngineError::failed(STEP, detail))
    })
}

/// Makes the folder of a machine that is to be, and takes its lock.
pub(super) async fn new_machine(folder: &Folder) -> EngineResult<MachineLock> {
    const STEP: &str = "make the machine's folder";
    private_folder(&folder.path).map_err(host_error(STEP, &folder.path))?;
    let taken = machine(folder).await?;
    taken.ok_or_else(|| EngineError::failed(STEP, "it was destroyed while being made"))
}

/// As [`machine`], without waiting: `None` also while somebody works on the machine.
pub(super) fn free(folder: &Folder) -> EngineResult<Option<MachineLock>> {
    let path = folder.path.join("lock");
    match try_lock(&path).map_err(host_error("lock the machine", &path))? {
        Tried::Taken(file) => Ok(Some(MachineLock { file })),
        Tried::Busy | Tried::Absent => Ok(None),
    }
}

enum Tried {
    Taken(File),
    Busy,
    Absent,
}

fn try_lock(path: &Path) -> io::Result<Tried> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tried::Absent),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Ok(Tried::Busy),
        Err(error) => return Err(error.into()),
    }
    // A destroy may have taken the folder away between the opening and the locking.
    match fs::metadata(path) {
        Ok(there) if there.ino() == file.metadata()?.ino() => Ok(Tried::Taken(file)),
        Ok(_) => Ok(Tried::Busy),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tried::Absent),
        Err(error) => Err(error),
    }
}

/// Holds what all controllers of this host share (slots, packet rules) for a few milliseconds.
pub(super) fn host(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}
