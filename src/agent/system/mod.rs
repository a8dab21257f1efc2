//! Interfaces to the guest's kernel: process 1, CPUs, memory, use of both and of the disk, epoll,
//! descriptors, identity, secrets, SSH and tunnels.

use nix::sys::signal::SigSet;

use hotdesk_base::step_error::StepError;

pub mod cpus;
pub(crate) mod env_file;
mod epoll;
mod gvisor;
pub mod identity;
pub(crate) mod inherited;
pub mod init;
pub(crate) mod memory;
pub(crate) mod ssh;
pub(crate) mod tunnel;
pub(crate) mod usage;
pub mod vm;

/// Unblocks every signal for this thread and the threads that it starts. Started programs inherit the mask,
/// and a program that blocks signals cannot be ended by the usual means.
///
/// # Errors
/// When `pthread_sigmask` fails.
pub fn unblock_signals() -> Result<(), StepError> {
    SigSet::empty().thread_set_mask().map_err(StepError::at("signal mask"))
}
