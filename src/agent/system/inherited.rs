//! Close-on-exec flag on inherited file descriptors.
//!
//! A command that inherits a listening socket or a file of the host could escape from the guest (T1, T16,
//! docs/security.md).

use std::io;

use nix::errno::Errno;
use nix::libc;

/// Marks every file descriptor above standard error close-on-exec.
pub fn close_on_exec() -> io::Result<()> {
    // gVisor refuses `u32::MAX`, the usual upper bound.
    let (first, last) = (3, i32::MAX);
    // SAFETY: the call only sets a flag on descriptors of this process and takes no pointers.
    #[allow(unsafe_code)]
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}
