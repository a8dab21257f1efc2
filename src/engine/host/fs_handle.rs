//! Handle of the file system of a disk in use. The host mounts it nowhere, so the handle is a detached mount
//! that no namespace shows.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

use crate::EngineResult;
use crate::host::command::host_error;
use crate::host::loopdev;

/// The file system of a disk in use. The detached mount exists until this is dropped.
#[derive(Debug)]
pub(crate) struct FsHandle {
    /// The loop device that shows the disk.
    pub(crate) device: File,
    /// The root of its file system; the guest sees a folder below.
    pub(crate) root: OwnedFd,
}

impl FsHandle {
    /// Opens the file system of a disk; `None` when no machine uses it. The kernel has one file system per
    /// device however often it is mounted, so this is the guest's own.
    pub(crate) fn of(disk: &Path) -> EngineResult<Option<Self>> {
        let failed = host_error("mount the disk's file system", disk);
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
