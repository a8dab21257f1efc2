//! Freeze, thaw and growth of mounted file systems: ioctls that no crate wraps, for hosts and virtual
//! machines.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// `_IOW('f', 16, __u64)` of fs/ext4/ext4.h.
const EXT4_IOC_RESIZE_FS: libc::Ioctl = 0x4008_6610;
/// `_IOWR('X', 119, int)` and the next, of linux/fs.h.
const FIFREEZE: libc::Ioctl = 0xC004_5877;
const FITHAW: libc::Ioctl = 0xC004_5878;

/// Grows a mounted ext4 to `blocks` of its own blocks. Needs `CAP_SYS_RESOURCE`.
///
/// # Errors
/// Those of the ioctl.
pub fn grow_ext4(folder: BorrowedFd<'_>, blocks: u64) -> io::Result<()> {
    // SAFETY: EXT4_IOC_RESIZE_FS reads one 64-bit number, which lives through the call.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(folder.as_raw_fd(), EXT4_IOC_RESIZE_FS, &raw const blocks) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes a file system back and blocks every later write until [`thaw`].
///
/// # Errors
/// `ResourceBusy` when it is already frozen; others of the ioctl.
pub fn freeze(folder: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: FIFREEZE ignores its argument.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(folder.as_raw_fd(), FIFREEZE, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unblocks the writes of a frozen file system.
///
/// # Errors
/// `InvalidInput` when it is not frozen; others of the ioctl.
pub fn thaw(folder: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: FITHAW ignores its argument.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(folder.as_raw_fd(), FITHAW, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
