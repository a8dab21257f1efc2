//! Id-mapped mounts: a file that the disk stores for user 0 belongs to a machine's first id on the host.
//! Disks stay numbered from 0, whatever ids a machine gets at a boot.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::host::addresses::IDS_PER_MACHINE;
use crate::host::command::{spawn, tool};
use crate::host::syscalls;
use crate::{EngineError, EngineResult};

/// Makes a user namespace whose ids 0 to 65535 are the host's from `first_id`. It lives as long as its
/// descriptor.
pub(super) fn user_namespace(first_id: u32) -> EngineResult<OwnedFd> {
    const STEP: &str = "make the user namespace";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    // The namespace needs a process until its descriptor is open: `cat` blocks on its input until that is
    // dropped.
    let mut command = tool("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    syscalls::in_own_user_namespace(&mut command);
    let mut holder = spawn(STEP, &mut command)?;
    let process = Path::new("/proc").join(holder.id().to_string());
    let mapping = format!("0 {first_id} {IDS_PER_MACHINE}");
    let opened = fs::write(process.join("uid_map"), &mapping)
        .and_then(|()| fs::write(process.join("gid_map"), &mapping))
        .and_then(|()| fs::File::open(process.join("ns/user")));
    drop(holder.stdin.take());
    let ended = holder.wait();
    let namespace = opened.map_err(failed)?;
    ended.map_err(failed)?;
    Ok(namespace.into())
}

/// Copies the mount of `source` as a detached, read-only mount with owners mapped through `user_namespace`.
pub(super) fn mapped_copy(source: &Path, user_namespace: BorrowedFd<'_>) -> EngineResult<OwnedFd> {
    const STEP: &str = "map the owners of a layer";
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let copy = open_tree(CWD, source, flags)
        .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", source.display())))?;
    map(STEP, copy.as_fd(), user_namespace, true, source)?;
    Ok(copy)
}

/// Maps the owners of a detached mount through `user_namespace`.
pub(super) fn map(
    step: &'static str,
    mount: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
    read_only: bool,
    named: &Path,
) -> EngineResult<()> {
    syscalls::map_owners(mount, user_namespace, read_only).map_err(|error| {
        EngineError::failed(
            step,
            format!(
                "{}: its file system or the kernel does not support id-mapped mounts: {error}",
                named.display()
            ),
        )
    })
}

/// Attaches a mount at `target`.
pub(super) fn attach(mount: &OwnedFd, target: &Path) -> EngineResult<()> {
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| EngineError::failed("attach a mount", format!("{}: {error}", target.display())))
}
