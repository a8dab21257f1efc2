//! Who owns a data folder? One controller at a time (threats.md T19).

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use procfs::process::{ProcState, Process};

/// How long the lock is tried for while who holds it lives; a second controller has to give up within a second (threats.md T19).
const TIMEOUT: Duration = Duration::from_millis(500);
/// The same after whoever held it has died: a child that it had begun to start holds it until it runs its program, which on a busy
/// host takes as long as it takes.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Holds the folder until it is dropped; the kernel lets go when the process ends, however it ends.
#[derive(Debug)]
pub struct DataDirLock {
    _file: Flock<File>,
}

/// Makes the folder (mode 0700) where it is missing and takes its lock.
///
/// # Errors
/// A sentence; when another controller holds it, one that names its process.
pub fn acquire(data_dir: &Path) -> Result<DataDirLock, String> {
    let shown = data_dir.display();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.map_err(|error| format!("cannot make {shown}: {error}"))?;
    let path = data_dir.join("lock");
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    let file = opened.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let mut file = lock(file, &path).map_err(|(why, holder)| {
        if why == Errno::EWOULDBLOCK {
            format!("{shown} is in use by the controller with process id {holder}")
        } else {
            format!("cannot lock {}: {why}", path.display())
        }
    })?;
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.flush());
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(DataDirLock { _file: file })
}

/// Takes the lock, or tells why not, and who wrote down last that he holds it. A controller that was killed may have left a child
/// between its fork and its exec, which holds the lock's description for that moment.
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
        // Read anew: somebody else may have taken it meanwhile. One that cannot be read names nobody.
        let holder = std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let patience = if lives(&holder) { TIMEOUT } else { ORPHAN_TIMEOUT };
        if why != Errno::EWOULDBLOCK || began.elapsed() >= patience {
            return Err((why, holder));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a process with this id lives, so that it can hold something itself.
fn lives(id: &str) -> bool {
    let process = id.parse().ok().and_then(|id| Process::new(id).ok());
    let state = process.and_then(|process| process.stat().ok()?.state().ok());
    state.is_some_and(|state| !matches!(state, ProcState::Zombie | ProcState::Dead))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_second_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let held = super::acquire(folder.path()).unwrap();
        let refused = super::acquire(folder.path()).unwrap_err();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        assert!(super::acquire(folder.path()).is_ok());
    }

    #[test]
    fn what_a_dead_holder_s_child_holds_for_a_moment_is_waited_for() {
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
