//! Files of `/proc` and `/sys` that show a computer's own size, served by one `lxcfs` process per guest.
//!
//! ```text
//!   start: FUSE mount, attached nowhere; lxcfs serves it          attach: mounted in the staging area
//!          |                                                        |
//!          v                                                        v
//!   join: lxcfs enters the machine's control groups <---- the OCI runtime binds FILES into the guest
//! ```
//! The mount exists only in the guest's mount namespace: lxcfs ends when that namespace does, and no crash of the
//! controller can leave it on the host. In the machine's control groups, its CPU time and its memory count as the
//! guest's, so a guest that reads in a loop slows down only itself.

use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, open_tree, unmount,
};

use crate::container::{idmap, stage};
use crate::host::cgroup;
use crate::host::command::{self, host_error, run, tool};
use crate::host::syscalls::{self, PASSED_FD};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

const PROGRAM: &str = "lxcfs";
const STEP: &str = "serve the computer's size";

/// Files below lxcfs' root, each with its place in a guest. `possible` and `present` also get the CPUs that are
/// online, because lxcfs passes on the host's. Left out are:
/// - the folder of the CPUs: lxcfs reads it as the host's root, so it would show files that the kernel hides from
///   users;
/// - `/proc/uptime`: the kernel counts the start of a process from the boot of the host, so `ps` would show wrong
///   ages and no CPU time.
pub(super) const FILES: [(&str, &str); 9] = [
    ("proc/cpuinfo", "/proc/cpuinfo"),
    ("proc/diskstats", "/proc/diskstats"),
    ("proc/loadavg", "/proc/loadavg"),
    ("proc/meminfo", "/proc/meminfo"),
    ("proc/stat", "/proc/stat"),
    ("proc/swaps", "/proc/swaps"),
    ("sys/devices/system/cpu/online", "/sys/devices/system/cpu/online"),
    ("sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible"),
    ("sys/devices/system/cpu/online", "/sys/devices/system/cpu/present"),
];

/// Starts lxcfs as a daemon and prints its process id. `setsid` keeps the signals of the controller's terminal from
/// it.
const LAUNCH: &str = "setsid lxcfs \"$@\" >/dev/null 2>&1 & echo $!";

/// Whether this host has lxcfs.
pub(super) fn is_installed() -> bool {
    command::is_installed(PROGRAM)
}

/// A running lxcfs and its mount, which is attached nowhere yet. Dropped in that state, it ends lxcfs.
#[derive(Debug)]
pub(super) struct ResourceFiles {
    mount: OwnedFd,
    pid: u32,
}

impl ResourceFiles {
    /// Starts lxcfs for one boot of a machine. `None` without lxcfs, or when it fails, which is logged: guests then
    /// see the host's size. Blocks.
    pub(super) fn start(id: ComputerId, pid_file: &Path) -> Option<Self> {
        if !is_installed() {
            return None;
        }
        Self::launch(pid_file)
            .inspect_err(|error| {
                tracing::warn!(computer = %id, error = format_args!("{error:#}"), "the guest sees the host's CPUs and memory; `hotdesk doctor` tries lxcfs");
            })
            .ok()
    }

    /// Starts lxcfs, which writes its process id to a file. Blocks.
    ///
    /// # Errors
    /// `Failed` without lxcfs or FUSE, or when lxcfs does not serve its files; nothing of it is left.
    pub(super) fn launch(pid_file: &Path) -> EngineResult<Self> {
        let device = Path::new("/dev/fuse");
        let opened: OwnedFd =
            OpenOptions::new().read(true).write(true).open(device).map_err(host_error(STEP, device))?.into();
        let mount = detached_mount(&opened).map_err(|error| {
            EngineError::failed(STEP, format!("the FUSE file system cannot be mounted: {error}"))
        })?;
        let mut launch = tool("sh");
        launch.args(["-c", LAUNCH, PROGRAM, "-f", "--enable-cfs", "--enable-loadavg", "--disable-swap"]);
        launch.arg("--pidfile").arg(pid_file).arg(format!("/dev/fd/{PASSED_FD}")).current_dir("/");
        syscalls::pass_fd(&mut launch, Some(opened));
        let text = run(STEP, launch)?;
        let pid =
            text.trim().parse().map_err(|error| EngineError::failed(STEP, format!("{text:?}: {error}")))?;
        let this = Self { mount, pid };
        this.check_served()?;
        Ok(this)
    }

    /// Reads a file by another process, which can be killed when lxcfs does not answer.
    fn check_served(&self) -> EngineResult<()> {
        let mut read = tool("cat");
        read.arg(format!("/proc/self/fd/{PASSED_FD}/proc/uptime"));
        let mount = self.mount.try_clone().map_err(|error| EngineError::failed(STEP, error))?;
        syscalls::pass_fd(&mut read, Some(mount));
        run(STEP, read).map(drop)
    }

    /// The mount.
    pub(super) fn mount(&self) -> &OwnedFd {
        &self.mount
    }

    /// Mounts [`FILES`] in the running guest whose first process is `pid`, in place of those of an lxcfs that has ended.
    pub(super) fn attach_to(&self, pid: u32) -> EngineResult<()> {
        let namespace = Path::new("/proc").join(pid.to_string()).join("ns/mnt");
        stage::in_mount_namespace(|| {
            let root = stage::path("")?;
            idmap::attach(&self.mount, &root)?;
            let copy = |name: &str| {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                open_tree(CWD, root.join(name), flags)
                    .map_err(|error| EngineError::failed(STEP, format!("{name}: {error}")))
            };
            let copies = FILES.map(|(name, target)| (copy(name), target));
            let entered = fs::File::open(&namespace).map_err(host_error(STEP, &namespace))?;
            setns(entered, CloneFlags::CLONE_NEWNS).map_err(|error| EngineError::failed(STEP, error))?;
            // From here on paths are the guest's. It cannot mount, so these lead to the kernel's file systems.
            for (copy, target) in copies {
                let target = Path::new(target);
                match unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                    // It is no mount: the guest booted without lxcfs.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(host_error(STEP, target)(error.into())),
                }
                idmap::attach(&copy?, target)?;
            }
            Ok(())
        })
    }

    /// Moves lxcfs into the control groups of the machine, which the OCI runtime has made.
    pub(super) fn join(&self, id: ComputerId) -> EngineResult<()> {
        for group in cgroup::folders(id) {
            let members = group.join("cgroup.procs");
            fs::write(&members, self.pid.to_string()).map_err(host_error(STEP, &members))?;
        }
        Ok(())
    }
}

/// A read-only FUSE mount of lxcfs' device.
fn detached_mount(device: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context: BorrowedFd<'_> = context.as_fd();
    let device = device.as_raw_fd().to_string();
    // `rootmode` is octal: a folder. Guests are other users than lxcfs.
    let options =
        [("source", PROGRAM), ("fd", &device), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")];
    for (name, value) in options {
        fsconfig_set_string(context, name, value)?;
    }
    fsconfig_set_flag(context, "allow_other")?;
    fsconfig_create(context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Whether guests can see their own size: tries lxcfs.
pub(super) fn try_once(pid_file: &Path) -> EngineResult<String> {
    if !is_installed() {
        return Err(EngineError::failed(
            STEP,
            "lxcfs is not installed, so guests see the host's CPUs and memory",
        ));
    }
    ResourceFiles::launch(pid_file).map(|_| "guests see their own CPUs and memory (lxcfs)".to_owned())
}
