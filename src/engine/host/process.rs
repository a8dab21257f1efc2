//! Observation of processes by pidfd, so that a reused pid is never mistaken for the earlier process.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::host::syscalls;
pub(crate) use hotdesk_base::clock::boot_id;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Opens a pidfd of a child that has not been reaped.
pub(crate) fn open_child(child: &Child) -> io::Result<OwnedFd> {
    open(child.id()).and_then(|found| found.ok_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Opens a pidfd; `None` when there is no such process.
pub(crate) fn open(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a process runs. Linux lists one that has ended in its control group for a moment longer.
pub(crate) fn runs(pid: u32) -> io::Result<bool> {
    open(pid)?.map_or(Ok(false), |pidfd| wait_exit(&pidfd, Instant::now()).map(|has_ended| !has_ended))
}

/// Waits until the process has ended or the deadline has passed. Returns whether it has ended.
pub(crate) fn wait_exit(pidfd: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left.min(Duration::from_secs(3600))).map_err(io::Error::other)?;
        let mut watched = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(0) if Instant::now() >= deadline => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until the process has ended. Costs one file descriptor.
pub(crate) async fn wait_ended(pidfd: OwnedFd) -> io::Result<()> {
    syscalls::watch(pidfd)?.readable().await.map(drop)
}
