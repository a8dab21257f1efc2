//! Settings of the allocator.

use std::io;

use nix::libc;

/// Size in bytes from which a block of memory is a mapping of its own, which goes back to the system when
/// it is freed. Smaller blocks stay in the heap of the thread that had them.
const LARGE_BLOCK: libc::c_int = 1024 * 1024;

/// Heaps on a single processor: a thread that is interrupted while it has the lock of one does not stop all
/// others.
const FEWEST_HEAPS: usize = 2;

/// Gives large blocks back to the system as soon as they are freed. glibc otherwise raises its bound after
/// the first such block, and each thread keeps what it had once: a password hash needs 19 MiB (mallopt(3)).
///
/// # Errors
/// `Unsupported` when the allocator refuses the setting.
pub fn return_large_blocks() -> io::Result<()> {
    set(libc::M_MMAP_THRESHOLD, LARGE_BLOCK)
}

/// Bounds the heaps of all threads together to one for each processor. glibc otherwise makes eight for
/// each, and every one keeps what threads that have ended once had (mallopt(3), `M_ARENA_MAX`). Call it
/// before threads start.
///
/// # Errors
/// `Unsupported` when the allocator refuses the setting; that of the system when it does not tell the
/// processors.
pub fn bound_heaps() -> io::Result<()> {
    let processors = std::thread::available_parallelism()?.get().max(FEWEST_HEAPS);
    set(libc::M_ARENA_MAX, libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX))
}

fn set(parameter: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: mallopt changes only settings of the allocator.
    #[allow(unsafe_code)]
    let set = unsafe { libc::mallopt(parameter, value) };
    if set == 1 { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
