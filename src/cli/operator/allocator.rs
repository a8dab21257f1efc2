//! Settings of the allocator.

use std::io;

use nix::libc;

/// Size in bytes from which a block of memory is a mapping of its own, which goes back to the system when it is
/// freed. Smaller blocks stay in the heap of the thread that had them.
const LARGE_BLOCK: libc::c_int = 1024 * 1024;

/// Gives large blocks back to the system as soon as they are freed. glibc otherwise raises its bound after the
/// first such block, and each thread keeps what it had once: a password hash needs 19 MiB (mallopt(3)).
///
/// # Errors
/// `Unsupported` when the allocator refuses the setting.
pub fn return_large_blocks() -> io::Result<()> {
    // SAFETY: mallopt changes only settings of the allocator.
    #[allow(unsafe_code)]
    let set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK) };
    if set == 1 { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}
