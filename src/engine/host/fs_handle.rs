//! How does the engine act on the file system of a disk in use, which is mounted nowhere on the host? By its root, through
//! a mount of its own that no namespace shows and nobody else can enter.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

use super::command::host_error;
use super::loopdev;
use crate::EngineResult;

/// The file system of a disk in use. It stays mounted while this is held.
#[derive(Debug)]
pub(super) struct Mounted {
    /// The loop device that shows the disk.
    pub(super) device: File,
    /// The root of its file system, above what the guest sees of it.
    pub(super) root: OwnedFd,
}

impl Mounted {
    /// The file system of a disk; `None` when no machine uses it. The kernel has one file system for a device however
    /// often it is mounted, so this is the guest's own.
    pub(super) fn of(disk: &Path) -> EngineResult<Option<Self>> {
        let failed = host_error("reach the disk's file system", disk);
        let Some(shown) = loopdev::open_showing(disk).map_err(&failed)? else { return Ok(None) };
        let root = || -> rustix::io::Result<OwnedFd> {
            let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(context.as_fd(), "source", &shown.path)?;
            fsconfig_create(context.as_fd())?;
            let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
            openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        let root = root().map_err(|error| failed(error.into()))?;
        Ok(Some(Self { device: shown.device, root }))
    }
}
