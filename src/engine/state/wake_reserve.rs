//! Disk space that is kept for resumes. A resume writes a few small files before it gives the space of its
//! saved memory back, so it must work on a full disk.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{FallocateFlags, fallocate};

use crate::host::files::remove_if_there;
use crate::state::disk;
use crate::state::layout::StateDir;

/// Bytes of the reserve. One resume writes below 256 KiB: the bundle, the seed disk, the runtime's record; a
/// few may run at once.
const RESERVE_BYTES: u64 = 4 << 20;

/// The reserve while a resume may use its space. The drop takes the space back.
#[derive(Debug)]
pub(crate) struct LentReserve<'a>(&'a StateDir);

/// Allocates the reserve where there is space. Without it only resumes on a full disk fail.
pub(crate) fn keep(state: &StateDir) {
    let path = state.wake_reserve();
    let kept = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES)?));
    if let Err(error) = kept {
        tracing::warn!(%error, path = %path.display(), "could not reserve disk space for resumes; on a full disk they may fail");
        // A part of the reserve is no reserve.
        remove(state);
    }
}

/// Frees the reserve for one resume if the disk is nearly full.
pub(crate) fn lend(state: &StateDir) -> Option<LentReserve<'_>> {
    let short = disk::check_reserve(&state.machines()).is_err();
    short.then(|| {
        remove(state);
        LentReserve(state)
    })
}

fn remove(state: &StateDir) {
    let path = state.wake_reserve();
    let removed: io::Result<()> = remove_if_there(&path);
    if let Err(error) = removed {
        tracing::warn!(%error, path = %path.display(), "could not free the disk space that is reserved for resumes");
    }
}

impl Drop for LentReserve<'_> {
    fn drop(&mut self) {
        keep(self.0);
    }
}
