//! System calls that no crate wraps: id-mapped mounts, loop and tap devices, encrypted folders, and the
//! setup of child processes.
//!
//! All unsafe code of the engine is in this folder.

pub(crate) mod fscrypt;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use seccompiler::BpfProgram;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The descriptor number of a file that a child inherits.
pub(crate) const PASSED_FD: RawFd = 3;

/// The highest nice value (setpriority(2)).
const LOWEST_PRIORITY: libc::c_int = 19;

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// `struct mount_attr` of linux/mount.h.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `mount_setattr(2)`: maps the owners of a detached mount through a user namespace, optionally read-only.
/// Device nodes never work. Set-user-id bits stay: they have effect only inside the guest, and no_new_privs
/// is on.
pub(crate) fn map_owners(
    mount: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
    read_only: bool,
) -> io::Result<()> {
    let read_only = if read_only { MOUNT_ATTR_RDONLY } else { 0 };
    let attributes = MountAttributes {
        set: MOUNT_ATTR_IDMAP | MOUNT_ATTR_NODEV | read_only,
        clear: 0,
        propagation: 0,
        user_namespace: u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?,
    };
    // SAFETY: the pointers are to a C string and to a structure of the stated size that live through the
    // call.
    #[allow(unsafe_code)]
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the child enter a new user namespace before it executes its program.
pub(crate) fn in_own_user_namespace(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| match libc::unshare(libc::CLONE_NEWUSER) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Passes `passed`, if any, to the child as descriptor [`PASSED_FD`], and nothing else beyond the standard
/// streams (leaked descriptors were CVE-2024-21626). The child is killed when the thread that starts it ends.
pub(crate) fn pass_fd(command: &mut Command, passed: Option<OwnedFd>) {
    // SAFETY: between fork and exec the closure makes only async-signal-safe system calls on plain numbers
    // and allocates nothing; `passed` is owned by the closure, so its number stays valid.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            let placed = match passed.as_ref().map(AsRawFd::as_raw_fd) {
                Some(PASSED_FD) => libc::fcntl(PASSED_FD, libc::F_SETFD, 0),
                Some(passed) => libc::dup2(passed, PASSED_FD),
                None => 0,
            };
            if placed < 0 {
                return Err(io::Error::last_os_error());
            }
            let first = if passed.is_some() { 4 } else { 3 };
            match libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}

/// `sync_file_range(2)`: begins to write a file's changed pages to the disk, and waits for none of them.
/// Errors of the disk are reported by a later `fsync(2)`, whoever opens the file for it.
pub(crate) fn start_write_back(file: &File) -> io::Result<()> {
    // SAFETY: the call takes plain numbers; the descriptor is open through it.
    #[allow(unsafe_code)]
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Share of the processors that a confined program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// That of this process.
    Inherited,
    /// What no other program uses.
    Lowest,
}

/// Limits a child, hides all descriptors but the standard streams from its program, gives it a priority of
/// CPU time, and filters its system calls.
pub(crate) fn confine(
    command: &mut Command,
    limits: Vec<(Resource, u64)>,
    filter: BpfProgram,
    priority: Priority,
) {
    // SAFETY: between fork and exec the closure makes system calls on memory that it owns, and allocates
    // nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            for (resource, limit) in &limits {
                setrlimit(*resource, *limit, *limit)?;
            }
            let hidden =
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            let lowers = priority == Priority::Lowest;
            if hidden != 0 || lowers && libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST_PRIORITY) != 0 {
                return Err(io::Error::last_os_error());
            }
            seccompiler::apply_filter(&filter).map_err(|_| io::Error::from_raw_os_error(libc::EPERM))
        });
    }
}

/// Limits a resource of a child (setrlimit(2)).
pub(crate) fn limit(command: &mut Command, resource: Resource, limit: u64) {
    // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || Ok(setrlimit(resource, limit, limit)?));
    }
}

/// Takes over a descriptor that this process inherited, and passes it to no child. Call it once for each.
pub(crate) fn take_fd(inherited: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call on a plain number has no other effect; afterwards the number is known to be open,
    // and its only owner is the returned value.
    #[allow(unsafe_code)]
    unsafe {
        match libc::fcntl(inherited, libc::F_SETFD, libc::FD_CLOEXEC) {
            0 => Ok(OwnedFd::from_raw_fd(inherited)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Registers a descriptor with the async runtime for readability.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor until it is dropped, and the watcher owns it.
    #[allow(unsafe_code)]
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(io::Error::from)
}

const TUNSETIFF: libc::Ioctl = 0x4004_54CA;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54CB;
/// A device for Ethernet frames without headers of its own, which must not be there yet (linux/if_tun.h).
const NEW_TAP: u16 = 0x0002 | 0x1000 | 0x8000;

/// `struct ifreq` of linux/if.h, for a request with flags.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    unused: [u8; 22],
}

/// Makes a tap device in the network namespace of the thread that opened `control`, which is
/// `/dev/net/tun`. It stays until that namespace ends.
///
/// # Errors
/// `InvalidInput` for a name of 16 bytes or more.
pub(crate) fn make_tap(control: &File, name: &str) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; libc::IFNAMSIZ], flags: NEW_TAP, unused: [0; 22] };
    // The kernel needs a zero at the end.
    let place = request.name.get_mut(..name.len()).filter(|place| place.len() < libc::IFNAMSIZ);
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    let persists: libc::c_int = 1;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives through the call; TUNSETPERSIST takes a
    // number.
    #[allow(unsafe_code)]
    let done = unsafe {
        libc::ioctl(control.as_raw_fd(), TUNSETIFF, &raw mut request) == 0
            && libc::ioctl(control.as_raw_fd(), TUNSETPERSIST, persists) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo {
    numbers: [u64; 5],
    loop_number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// The number of a free loop device; another process may take it first.
pub(crate) fn free_loop(control: &File) -> io::Result<u32> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
    #[allow(unsafe_code)]
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Attaches a file to a loop device. The device frees itself after its last user closed it, and uses direct
/// I/O, so that a guest's data is not cached twice.
pub(crate) fn configure_loop(device: &File, file: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?,
        block_size: 0,
        info: LoopInfo {
            numbers: [0; 5],
            loop_number: 0,
            encryption: [0; 2],
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            names: [0; 160],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `loop_config`, which lives through the call.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const LOOP_SET_CAPACITY: libc::Ioctl = 0x4C07;

const LOOP_CLR_FD: libc::Ioctl = 0x4C01;

/// Detaches the file of a loop device, at once or after its last user closed it.
pub(crate) fn release_loop(device: &File) -> io::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a loop device take over the new size of its file.
pub(crate) fn refresh_loop(device: &File) -> io::Result<()> {
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_CAPACITY) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn structures_have_the_kernel_s_sizes() {
        assert_eq!(size_of::<super::LoopInfo>(), 232);
        assert_eq!(size_of::<super::LoopConfig>(), 304);
        assert_eq!(size_of::<super::InterfaceRequest>(), size_of::<nix::libc::ifreq>());
        assert_eq!(size_of::<super::MountAttributes>(), 32);
    }
}
