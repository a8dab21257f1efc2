//! Who owns a data folder? One controller at a time (threats.md T19).

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// How long the lock is tried for; a second controller has to give up within a second (threats.md T19).
const PATIENCE: Duration = Duration::from_millis(700);
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
    let mut file = opened.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let mut holder = String::new();
    let read = Read::by_ref(&mut file).take(32).read_to_string(&mut holder);
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut file = lock(file).map_err(|why| {
        if why == Errno::EWOULDBLOCK {
            format!("{shown} is in use by the controller with process id {}", holder.trim())
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

/// Takes the lock. A controller that was killed may have left a child between its fork and its exec, which holds the
/// lock's description for that moment: what is held longer is somebody's.
fn lock(mut file: File) -> Result<Flock<File>, Errno> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(held),
            Err((_, why)) if Instant::now() >= give_up => return Err(why),
            Err((back, _)) => file = back,
        }
        std::thread::sleep(PAUSE);
    }
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
}
