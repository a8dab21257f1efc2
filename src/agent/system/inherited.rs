//! Which descriptors of the agent's starter may reach commands? None: a listening socket or a host's file in a guest's
//! hands is an escape (threats.md T1, T16).

use std::io;

use nix::errno::Errno;
use nix::libc;

/// Marks every descriptor above standard error close-on-exec. The agent keeps them; no program that it starts does.
pub fn keep_from_commands() -> io::Result<()> {
    // gVisor refuses more than a descriptor can be.
    let (first, last) = (3, i32::MAX);
    // SAFETY: the call only sets a flag on descriptors of this process and takes no pointers.
    #[allow(unsafe_code)]
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}
