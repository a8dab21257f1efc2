//! Whom does an event of a descriptor reach that is watched no more? Nobody.
//!
//! gVisor (20240729) links the interests of an epoll set that were reported together and does not part them. A deleted one stays
//! reachable by that, is saved with the memory, and is reported once more after it came back. What it then leads to is freed: the
//! runtime's event data is an address, and a worker of an agent that had woken waited for good at a lock that was no lock. So
//! what is deleted is made to lead nowhere first.

use nix::libc::{EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, SYS_epoll_ctl, c_int, epoll_event, syscall};

/// The event data of tokio's own wake-up, which asks for nothing but another look.
const NOBODY: u64 = 0;

/// epoll_ctl(2) in place of the C library's, for all of this program. Before a descriptor is deleted its data leads nowhere, and
/// should it be reported after all, that is done once (`EPOLLET`).
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
    let ask = |operation: c_int, event: *mut epoll_event| {
        // SAFETY: the kernel checks descriptors; the event is the caller's, or lives until this returns.
        unsafe { syscall(SYS_epoll_ctl, set, operation, fd, event) as c_int }
    };
    if operation == EPOLL_CTL_DEL {
        let mut nowhere = epoll_event { events: EPOLLET as u32, u64: NOBODY };
        // What cannot be changed cannot be deleted either, which is told.
        ask(EPOLL_CTL_MOD, &raw mut nowhere);
    }
    ask(operation, event)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::errno::Errno;
    use nix::libc;
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
    use nix::sys::eventfd::EventFd;

    /// Every crate's call is ours, and what it does and tells is the C library's.
    #[test]
    fn what_is_deleted_is_not_told_and_errors_are_the_kernel_s() {
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
