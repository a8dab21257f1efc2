//! Exclusive locks of a data folder: one controller at a time, and one process that makes machines, T19
//! (docs/security.md).
//!
//! | file | holder |
//! |---|---|
//! | `lock` in the store's folder | the controller |
//! | `host.lock` in the machines' folder | the host helper, or a controller that makes its machines itself |

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use procfs::process::{ProcState, Process};

use crate::config::Config;
use hotdesk_domain::error::{Error, Result};

/// Time to retry while the holder lives. A second controller must give up within a second, T19
/// (docs/security.md).
const TIMEOUT: Duration = Duration::from_millis(500);
/// Time to retry after the holder has died. A child that it forked holds the lock until its exec, which may
/// be slow on a busy host.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Lock that holds until it is dropped. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct DataDirLock {
    _file: Flock<File>,
}

/// Takes the locks of the store and of the machines, for a process that uses both.
///
/// # Errors
/// Those of [`acquire`] and [`acquire_machines`].
pub fn acquire_all(config: &Config) -> Result<[DataDirLock; 2]> {
    Ok([acquire(&config.store_dir())?, acquire_machines(config.machines_dir())?])
}

/// Takes the lock of the machines of a folder.
///
/// # Errors
/// Those of [`acquire`].
pub fn acquire_machines(folder: &Path) -> Result<DataDirLock> {
    take(folder, "host.lock", "process")
}

/// Creates the folder (mode 0700) if it is missing, and takes the controller's lock in it.
///
/// Waits up to half a second for a live holder and up to 10 seconds for a child of a dead one.
///
/// # Errors
/// `Internal` with a sentence for people. It names the process id of a controller that holds the lock.
pub fn acquire(data_dir: &Path) -> Result<DataDirLock> {
    take(data_dir, "lock", "controller")
}

fn take(data_dir: &Path, name: &str, holder_kind: &str) -> Result<DataDirLock> {
    let shown = data_dir.display();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.map_err(|error| Error::failed(format!("cannot create the data folder {shown}: {error}")))?;
    let path = data_dir.join(name);
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // The folder may belong to a user whom root, which takes the lock to repair, does not trust.
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(&path);
    let failed = |error| Error::failed(format!("cannot open {}: {error}", path.display()));
    let file = opened.map_err(failed)?;
    give_to_owner(&file, data_dir).map_err(failed)?;
    let mut file = lock(file, &path).map_err(|(why, holder)| {
        Error::failed(if why == Errno::EWOULDBLOCK {
            format!("{shown} is in use by the {holder_kind} with process id {holder}")
        } else {
            format!("cannot lock {}: {why}", path.display())
        })
    })?;
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.flush());
    written.map_err(|error| Error::failed(format!("cannot write {}: {error}", path.display())))?;
    Ok(DataDirLock { _file: file })
}

/// Gives a lock file that root has just made to the owner of its folder, so that its controller can take it later.
fn give_to_owner(file: &File, folder: &Path) -> std::io::Result<()> {
    let (made, folder) = (file.metadata()?, folder.metadata()?);
    let is_foreign = made.uid() == 0 && folder.uid() != 0 && made.nlink() == 1;
    if is_foreign { fchown(file, Some(folder.uid()), Some(folder.gid())) } else { Ok(()) }
}

/// Takes the lock, or returns the error and the process id that was last written into the file. A controller
/// that was killed may leave a child between fork and exec, which holds the open file description until its
/// exec.
fn lock(mut file: File, path: &Path) -> Result<Flock<File>, (Errno, String)> {
    let began = Instant::now();
    loop {
        let why = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(held),
            Err((back, why)) => {
                file = back;
                why
            }
        };
        // Read again: another process may have taken the lock meanwhile. An unreadable file names no process.
        let holder = std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let timeout = if lives(&holder) { TIMEOUT } else { ORPHAN_TIMEOUT };
        if why != Errno::EWOULDBLOCK || began.elapsed() >= timeout {
            return Err((why, holder));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether the process with this id lives. A zombie cannot hold a lock itself.
fn lives(id: &str) -> bool {
    let process = id.parse().ok().and_then(|id| Process::new(id).ok());
    let state = process.and_then(|process| process.stat().ok()?.state().ok());
    state.is_some_and(|state| !matches!(state, ProcState::Zombie | ProcState::Dead))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_error_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let held = super::acquire(folder.path()).unwrap();
        let refused = super::acquire(folder.path()).unwrap_err();
        assert!(refused.message.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        assert!(super::acquire(folder.path()).is_ok());
    }

    #[test]
    fn a_child_of_a_dead_holder_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let held = super::acquire(folder.path()).unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let id = dead.id().to_string();
        assert!(super::lives(&std::process::id().to_string()) && !super::lives(""));
        std::fs::write(folder.path().join("lock"), &id).unwrap();
        dead.wait().unwrap();
        assert!(!super::lives(&id));
        let child = std::thread::spawn(move || {
            std::thread::sleep(2 * super::TIMEOUT);
            drop(held);
        });
        assert!(super::acquire(folder.path()).is_ok());
        child.join().unwrap();
    }
}
