//! Lock of one machine (flock(2)), so that one operation at a time works on it in whichever process, or
//! several that only read its files.
//!
//! Lock order: machine (a copy's source, then its target), then host (`host/lock.rs`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::host::command::host_error;
use crate::host::files::private_folder;
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::wait;

/// Longest wait for another operation on the same machine: a stop with a long grace and a slow disk.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The lock of one machine; the kernel releases it when its holder dies.
#[derive(Debug)]
pub(crate) struct MachineLock {
    file: File,
}

impl MachineLock {
    /// Takes a machine's lock; `None` when the machine has no folder.
    ///
    /// # Errors
    /// `Failed` when another operation holds it for over 240 seconds, or when the folder is encrypted and
    /// its key is missing.
    pub(crate) async fn acquire(folder: &Folder) -> EngineResult<Option<Self>> {
        Self::wait_for(folder, FlockOperation::NonBlockingLockExclusive).await
    }

    /// [`Self::acquire`] for an operation that only reads the machine's files: others that do so may run at
    /// the same time.
    pub(crate) async fn acquire_to_read(folder: &Folder) -> EngineResult<Option<Self>> {
        Self::wait_for(folder, FlockOperation::NonBlockingLockShared).await
    }

    async fn wait_for(folder: &Folder, operation: FlockOperation) -> EngineResult<Option<Self>> {
        const STEP: &str = "lock the machine";
        let path = folder.path.join("lock");
        let taken = wait::until(TIMEOUT, || async {
            match try_lock(&path, operation) {
                Ok(LockAttempt::Taken(file)) => Some(Ok(Some(Self { file }))),
                Ok(LockAttempt::Absent) => Some(Ok(None)),
                Ok(LockAttempt::KeyMissing) => Some(Err(folder.key_missing())),
                Ok(LockAttempt::Busy) => None,
                Err(error) => Some(Err(host_error(STEP, &path)(error))),
            }
        });
        taken.await.unwrap_or_else(|| {
            let detail =
                format!("{}: another operation has held it for over {} s", path.display(), TIMEOUT.as_secs());
            Err(EngineError::failed(STEP, detail))
        })
    }

    /// Makes the folder of a new machine and takes its lock.
    pub(crate) async fn acquire_new(folder: &Folder) -> EngineResult<Self> {
        const STEP: &str = "make the machine's folder";
        private_folder(&folder.path).map_err(host_error(STEP, &folder.path))?;
        let taken = Self::acquire(folder).await?;
        taken.ok_or_else(|| EngineError::failed(STEP, "another request destroyed it at the same time"))
    }

    /// [`Self::acquire`] without waiting: `None` also while the lock is held, or the folder's key is missing.
    pub(crate) fn try_acquire(folder: &Folder) -> EngineResult<Option<Self>> {
        let path = folder.path.join("lock");
        match try_lock(&path, FlockOperation::NonBlockingLockExclusive)
            .map_err(host_error("lock the machine", &path))?
        {
            LockAttempt::Taken(file) => Ok(Some(Self { file })),
            LockAttempt::Busy | LockAttempt::Absent | LockAttempt::KeyMissing => Ok(None),
        }
    }

    /// A duplicate descriptor for a tool. The lock is released when the last one is closed, so no later
    /// controller works on the machine while the tool runs.
    pub(crate) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

enum LockAttempt {
    Taken(File),
    Busy,
    Absent,
    KeyMissing,
}

fn try_lock(path: &Path, operation: FlockOperation) -> io::Result<LockAttempt> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockAttempt::Absent),
        Err(error) if error.raw_os_error() == Some(nix::libc::ENOKEY) => return Ok(LockAttempt::KeyMissing),
        Err(error) => return Err(error),
    };
    match flock(&file, operation) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Ok(LockAttempt::Busy),
        Err(error) => return Err(error.into()),
    }
    // A destroy may have removed the folder between the open and the lock.
    match fs::metadata(path) {
        Ok(current) if current.ino() == file.metadata()?.ino() => Ok(LockAttempt::Taken(file)),
        Ok(_) => Ok(LockAttempt::Busy),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LockAttempt::Absent),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    #[tokio::test]
    async fn readers_share_a_machine_and_exclude_everything_else() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().join("machine") };
        assert!(MachineLock::acquire_to_read(&folder).await.unwrap().is_none(), "it has no folder");
        let alone = MachineLock::acquire_new(&folder).await.unwrap();
        let mut waiting = Box::pin(MachineLock::acquire_to_read(&folder));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("a reader shares the lock with a writer"),
            () = std::future::ready(()) => {}
        }
        drop(alone);
        let first = waiting.await.unwrap().unwrap();
        let second = MachineLock::acquire_to_read(&folder).await.unwrap().unwrap();
        drop(first);
        assert!(MachineLock::try_acquire(&folder).unwrap().is_none(), "one still reads");
        drop(second);
        assert!(MachineLock::try_acquire(&folder).unwrap().is_some());
    }
}
