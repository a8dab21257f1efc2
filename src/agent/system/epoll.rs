//! Workaround for stale epoll events after a gVisor restore.
//!
//! gVisor (20240729) links epoll interests that were reported together and never unlinks them. A deleted
//! interest stays reachable, is saved with the memory, and is reported once more after the restore. Its event
//! data is the address of a tokio structure that has been freed: a worker of a restored agent then blocked
//! for ever on what was no longer a lock. So under gVisor this module clears the event data before it deletes
//! an interest. Elsewhere a delete is one system call, as in the C library.

use nix::libc::{EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, SYS_epoll_ctl, c_int, epoll_event, syscall};

use super::gvisor::is_under_gvisor;

/// Event data of tokio's own wake-up, which only starts another poll.
const TOKIO_WAKEUP: u64 = 0;

/// Replacement of the C library's epoll_ctl(2) in this program. Before a delete under gVisor it replaces the
/// event data, and makes the interest edge-triggered so that a stale event is reported at most once.
///
/// # Safety
/// As for the C library's: `event` is null or points at an event.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let call = |operation: c_int, event: *mut epoll_event| {
        // SAFETY: the kernel checks descriptors; the event is the caller's, or lives until this returns.
        unsafe { syscall(SYS_epoll_ctl, set, operation, fd, event) as c_int }
    };
    if operation == EPOLL_CTL_DEL && is_under_gvisor() {
        let mut harmless = epoll_event { events: EPOLLET as u32, u64: TOKIO_WAKEUP };
        // The result is ignored: the delete below fails with the same error.
        call(EPOLL_CTL_MOD, &raw mut harmless);
    }
    call(operation, event)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::errno::Errno;
    use nix::libc;
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
    use nix::sys::eventfd::EventFd;

    /// Every crate calls this function, and its effects and errors are those of the C library.
    #[test]
    fn deleted_interests_are_silent_and_errors_are_those_of_the_kernel() {
        assert_eq!(libc::epoll_ctl as *const () as usize, super::epoll_ctl as *const () as usize);
        let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        let (kept, gone) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        for (fd, data) in [(&kept, 7), (&gone, 8)] {
            set.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data)).unwrap();
            fd.write(1).unwrap();
        }
        set.delete(&gone).unwrap();
        let mut events = [EpollEvent::empty(); 4];
        assert_eq!(set.wait(&mut events, EpollTimeout::ZERO), Ok(1));
        assert_eq!(events[0].data(), 7);
        assert_eq!(set.delete(&gone), Err(Errno::ENOENT));
        assert_eq!(set.delete(std::fs::File::open("/dev/null").unwrap().as_fd()), Err(Errno::EPERM));
    }
}
