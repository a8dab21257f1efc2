//! Process 1 of an instance with gVisor: boots the guest, takes requests, and ends with the guest.
//!
//! When it ends, the kernel ends all other processes of the instance.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::failure::BootFailure;
use super::machine::Machine;
use super::{CONTROL_SOCKET, control};
use crate::host::files::set_umask;
use crate::incus::documents::BootMode;
use crate::{EngineError, EngineResult};

const STEP: &str = "run the launcher";

/// Boots the guest and waits for its end.
///
/// # Errors
/// Those of [`Machine::boot`], which it also stores for the controller.
pub(super) fn run(mode: BootMode, generation: u64) -> EngineResult<()> {
    let failed = |error: Errno| EngineError::failed(STEP, error);
    set_umask();
    // Before other threads begin, which have the mask of this one. Tools have none.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTERM);
    mask.thread_block().map_err(failed)?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&mask, flags).map_err(failed)?;
    let machine =
        Machine::boot(mode, generation).inspect_err(|error| BootFailure::store(generation, error))?;
    supervise(machine, &signals).map_err(|error| EngineError::failed(STEP, error))
}

/// Waits until the guest has ended, or is suspended.
fn supervise(machine: Machine, signals: &SignalFd) -> io::Result<()> {
    let machine = Arc::new(machine);
    let listener = UnixListener::bind(CONTROL_SOCKET)?;
    let (requests, served) = io::pipe()?;
    let server = Arc::clone(&machine);
    thread::Builder::new().name("requests".to_owned()).spawn(move || {
        control::serve(&listener, &server);
        // The other end notices it.
        drop(served);
    })?;
    loop {
        let mut ready = [
            PollFd::new(machine.sandbox().as_fd(), PollFlags::POLLIN),
            PollFd::new(requests.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let [has_ended, is_suspended, is_asked] = ready.map(|source| source.any().unwrap_or_default());
        if has_ended || is_suspended {
            return Ok(());
        }
        if is_asked
            && signals.read_signal()?.is_some()
            && let Err(error) = machine.ask_to_end()
        {
            // For example because it is paused.
            return Err(io::Error::other(format!("{error:#}")));
        }
    }
}
