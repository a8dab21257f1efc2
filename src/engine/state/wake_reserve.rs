//! Disk space that is kept for resumes. A resume writes a few small files before it gives the space of its
//! saved memory back, so it must work on a full disk.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use crate::host::files::remove_if_there;
use crate::state::disk;
use crate::state::layout::StateDir;

/// Bytes of the reserve. One resume writes below 256 KiB: the bundle, the seed disk, the runtime's record; a
/// few may run at once.
const RESERVE_BYTES: u64 = 4 << 20;

/// Longest time until the space of the memory that a resume has read is free.
const FREE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two looks for that space.
const PAUSE: Duration = Duration::from_millis(10);

/// The reserve while a resume may use its space. The drop takes the space back.
#[derive(Debug)]
pub(crate) struct LentReserve<'a>(&'a StateDir);

/// Allocates the reserve where there is space. Without it only resumes on a full disk fail.
pub(crate) fn keep(state: &StateDir) {
    settle(state, allocate(state));
}

fn allocate(state: &StateDir) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(state.wake_reserve())?;
    Ok(fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES)?)
}

/// Allocates the reserve when the disk has space again. A runtime closes the files of the memory that it has
/// read only after it said that the machine runs; until then their space is not free, although they are
/// removed.
fn allocate_when_free(state: &StateDir) -> io::Result<()> {
    let deadline = Instant::now() + FREE_TIMEOUT;
    loop {
        let allocated = allocate(state);
        let full = allocated.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull);
        if !full || Instant::now() >= deadline {
            return allocated;
        }
        // File systems keep the part that fitted, and the machine that runs now may need it.
        remove(state);
        std::thread::sleep(PAUSE);
    }
}

fn settle(state: &StateDir, kept: io::Result<()>) {
    if let Err(error) = kept {
        let path = state.wake_reserve();
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
        settle(self.0, allocate_when_free(self.0));
    }
}
