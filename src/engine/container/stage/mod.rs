//! Assembly of a guest's file system, in the mount namespace of a short-lived thread.
//!
//! The thread leaves the host's mount namespace, mounts the layers, the disk and the boot's secrets, and
//! starts the OCI runtime, whose container copies the mounts that it needs. Then the thread ends. So no mount
//! of a guest appears in the host's namespace. If a process is killed at any moment, the kernel cleans up. No
//! path on the host leads to a guest's files (T7, T18, docs/security.md).

pub(super) mod layer;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::Mode;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
};
use rustix::thread::{CapabilitiesSecureBits, capabilities_secure_bits, set_capabilities_secure_bits};

use crate::container::idmap;
use crate::host::loopdev;
use crate::host::slots;
use crate::state::boot_files::BootFile;
use crate::{EngineError, EngineResult};

/// Limits of the staging area, which holds a few text files and at most 20 mount points. Guests may write some of them.
const STAGE_OPTIONS: &std::ffi::CStr = c"size=1m,nr_inodes=64,mode=0711";

const MOUNT_DISK: &str = "mount the disk";

/// The folder of the staging area with the files that show a computer's size.
pub(super) const RESOURCE_FILES: &str = "lxcfs";

/// The parts of a guest's file system.
#[derive(Debug)]
pub(super) struct FileSystemParts<'a> {
    /// The image's root folder.
    pub(super) image: PathBuf,
    /// The folders of the layers above the image, the lowest first.
    pub(super) layers: Vec<PathBuf>,
    /// The executable that becomes the guest's agent.
    pub(super) agent: PathBuf,
    /// The disk file.
    pub(super) disk: PathBuf,
    /// The host user id of the guest's root.
    pub(super) first_id: u32,
    /// Small files of this boot.
    pub(super) files: Vec<BootFile>,
    /// A mount of files that show the computer's size, if any.
    pub(super) resource_files: Option<&'a OwnedFd>,
}

/// The path of a staged file or folder, valid inside the thread's namespace.
pub(super) fn path(name: &str) -> EngineResult<PathBuf> {
    let failed = |error: io::Error| EngineError::failed("make the staging folder", error);
    let stage = slots::host_dir().map_err(failed)?.join("stage");
    fs::DirBuilder::new().recursive(true).mode(0o711).create(&stage).map_err(failed)?;
    Ok(stage.join(name))
}

/// Assembles a guest's file system and calls `then` in its namespace. On return the namespace exists only in
/// processes that `then` started. Blocks.
pub(super) fn with_file_system<T: Send>(
    parts: &FileSystemParts<'_>,
    then: impl FnOnce() -> EngineResult<T> + Send,
) -> EngineResult<T> {
    in_mount_namespace(|| {
        assemble(parts)?;
        then()
    })
}

/// Calls `act` on a thread in a new mount namespace. Blocks.
pub(super) fn in_mount_namespace<T: Send>(act: impl FnOnce() -> EngineResult<T> + Send) -> EngineResult<T> {
    let outcome = std::thread::scope(|scope| {
        let staging = std::thread::Builder::new().name("stage".to_owned());
        let thread = staging.spawn_scoped(scope, || {
            enter_own_namespace()?;
            act()
        });
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match outcome {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => {
            Err(EngineError::failed("assemble the guest's file system", "the staging thread panicked"))
        }
        Err(error) => Err(EngineError::failed("start the staging thread", error)),
    }
}

fn enter_own_namespace() -> EngineResult<()> {
    const STEP: &str = "leave the host's mount namespace";
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| EngineError::failed(STEP, error))?;
    // Unmounts of the host propagate to here, so this pins no mount of the host; mounts of this thread do not
    // propagate back.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", slave).map_err(|error| EngineError::failed(STEP, error))
}

/// Calls `read` with the root folder of a disk's file system, mounted read-only, in a mount namespace of its own. No machine
/// may use the disk. Blocks.
pub(super) fn with_disk<T: Send>(
    disk: &Path,
    read: impl FnOnce(&Path) -> EngineResult<T> + Send,
) -> EngineResult<T> {
    in_mount_namespace(|| {
        let stage = staging_area()?;
        let at = mount_point(&stage, "disk")?;
        idmap::attach(&mounted(disk, DiskUse::Read)?, &at)?;
        read(&at)
    })
}

/// Mounts the staging area and returns its path.
fn staging_area() -> EngineResult<PathBuf> {
    let stage = path("")?;
    mount(
        "tmpfs",
        &stage,
        "tmpfs",
        MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOSUID,
        STAGE_OPTIONS,
    )
    .map_err(|error| EngineError::failed("mount the staging area", error))?;
    Ok(stage)
}

/// Makes a folder of the staging area.
fn mount_point(stage: &Path, name: &str) -> EngineResult<PathBuf> {
    let path = stage.join(name);
    fs::create_dir(&path).map_err(|error| EngineError::failed("make a mount point", error))?;
    Ok(path)
}

fn assemble(parts: &FileSystemParts<'_>) -> EngineResult<()> {
    let stage = staging_area()?;
    for folder in ["disk", "rootfs", RESOURCE_FILES] {
        mount_point(&stage, folder)?;
    }
    let namespace = idmap::user_namespace(parts.first_id)?;
    let mut lower = Vec::new();
    for (number, folder) in parts.layers.iter().rev().chain([&parts.image]).enumerate() {
        let at = mount_point(&stage, &format!("lower{number}"))?;
        idmap::attach(&idmap::mapped_copy(folder, namespace.as_fd())?, &at)?;
        lower.push(at);
    }
    idmap::attach(&mounted_disk(&parts.disk, namespace.as_fd())?, &stage.join("disk"))?;
    overlay(&stage, &lower, parts.first_id)?;
    for file in &parts.files {
        write_staged(&stage.join(file.name), file, parts.first_id)
            .map_err(|error| EngineError::failed("write a boot file", format!("{}: {error}", file.name)))?;
    }
    if let Some(resource_files) = parts.resource_files {
        idmap::attach(resource_files, &stage.join(RESOURCE_FILES))?;
    }
    let agent = stage.join("agent");
    fs::write(&agent, b"").map_err(|error| EngineError::failed("make a mount point", error))?;
    idmap::attach(&idmap::mapped_copy(&parts.agent, namespace.as_fd())?, &agent)
}

/// What a disk is mounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskUse {
    /// A guest's root.
    Boot,
    /// A copy of its files.
    Read,
}

/// Mounts a disk's file system detached.
fn mounted(image: &Path, purpose: DiskUse) -> EngineResult<OwnedFd> {
    let failed =
        |error: rustix::io::Errno| EngineError::failed(MOUNT_DISK, format!("{}: {error}", image.display()));
    // Writable also to be read: after a crash of the host the kernel replays the journal first.
    let device = loopdev::attach(image)?;
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    fsconfig_set_string(context.as_fd(), "source", &device.path).map_err(failed)?;
    // Returns freed blocks to the host. A damaged file system becomes read-only.
    fsconfig_set_flag(context.as_fd(), "discard").map_err(failed)?;
    fsconfig_set_string(context.as_fd(), "errors", "remount-ro").map_err(failed)?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOATIME;
    if purpose == DiskUse::Read {
        fsconfig_set_flag(context.as_fd(), "ro").map_err(failed)?;
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    fsconfig_create(context.as_fd()).map_err(failed)?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(failed)
}

/// Mounts the disk's file system detached and id-mapped, with the overlay's two folders in it.
fn mounted_disk(image: &Path, namespace: BorrowedFd<'_>) -> EngineResult<OwnedFd> {
    let failed =
        |error: rustix::io::Errno| EngineError::failed(MOUNT_DISK, format!("{}: {error}", image.display()));
    let mounted = mounted(image, DiskUse::Boot)?;
    for folder in ["upper", "work"] {
        match rustix::fs::mkdirat(&mounted, folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    idmap::map(MOUNT_DISK, mounted.as_fd(), namespace, false, image)?;
    Ok(mounted)
}

/// Mounts the guest's root: the disk as the upper folder, and the lower ones, the highest first.
fn overlay(stage: &Path, lower: &[PathBuf], first_id: u32) -> EngineResult<()> {
    const STEP: &str = "mount the overlay over mapped layers";
    let lower: Vec<String> = lower.iter().map(|folder| folder.display().to_string()).collect();
    let options = format!(
        "lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work,redirect_dir=off,metacopy=off,index=off,xino=off",
        lower = lower.join(":"),
        disk = stage.join("disk").display(),
    );
    let options = std::ffi::CString::new(options).map_err(|error| EngineError::failed(STEP, error))?;
    as_guest_root(first_id, || {
        mount("overlay", stage.join("rootfs"), "overlay", MountFlags::NODEV, options.as_c_str())
    })
    .map_err(|error| EngineError::failed(STEP, error))
}

/// Runs `act` with the guest root's file system id and the controller's capabilities. The overlay creates its
/// own files as the user who mounted it, and that user must exist in the mapping.
fn as_guest_root(first_id: u32, act: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
    let before = capabilities_secure_bits()?;
    set_capabilities_secure_bits(before | CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    setfsgid(Gid::from_raw(first_id));
    setfsuid(Uid::from_raw(first_id));
    // setfsuid(2) reports no errors; a second call returns the present id.
    let became = setfsuid(Uid::from_raw(u32::MAX)).as_raw() == first_id;
    let outcome = if became {
        act().map_err(io::Error::from)
    } else {
        Err(io::Error::other(format!("setfsuid to {first_id} was refused")))
    };
    setfsuid(Uid::from_raw(0));
    setfsgid(Gid::from_raw(0));
    set_capabilities_secure_bits(before)?;
    outcome
}

fn write_staged(path: &Path, file: &BootFile, owner: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(path)?;
    opened.write_all(file.text.as_bytes())?;
    chown(path, Some(owner), Some(owner))
}
