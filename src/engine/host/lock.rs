//! Lock of what all controllers of a host share (flock(2)).
//!
//! Lock order: machine (`state/machine_lock.rs`), then host.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Locks what all controllers of this host share (slots, packet rules); held for a few milliseconds.
pub(crate) fn host(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}
