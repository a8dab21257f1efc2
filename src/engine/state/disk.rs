//! Creation and growth of a machine's disk: ext4 in a sparse file. Its size limits what the guest can store;
//! the host spends only what the guest has stored.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};

use crate::host::command::{check_status, host_error, run, run_with_timeout, tool};
use crate::host::files::{remove_if_there, sync_folder};
use crate::host::fs_handle::FsHandle;
use crate::host::syscalls;
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::{Effect, EngineError, EngineResult, Shortage};
use hotdesk_base::filesystem;
use hotdesk_domain::computer::disk_guard::HOST_RESERVE;

/// Smallest disk in bytes: below this, ext4 with its journal leaves no usable space.
pub(crate) const SMALLEST: u64 = 64 << 20;
/// Offset and length of ext4's superblock in bytes.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
/// Bytes of a block group. ext4 grows by whole groups, so less than this may remain unused.
const WHOLE_GROUP: u64 = 128 << 20;
/// For a check of a full disk of hundreds of gigabytes; an interrupted resize could damage it.
const GROW_TIMEOUT: Duration = Duration::from_secs(600);

/// Limit on the reads of a guest from its disk, and separately the same on its writes. The default is
/// unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Megabytes (10^6 bytes) a second; 0 is unlimited.
    pub mb_per_second: u32,
    /// Operations a second; 0 is unlimited.
    pub ops_per_second: u32,
}

/// Makes `disk.img`. It gets its name once it is complete and synced.
pub(crate) fn make(folder: &Folder, bytes: u64) -> EngineResult<()> {
    const STEP: &str = "make the disk";
    if bytes < SMALLEST {
        return Err(EngineError::failed(STEP, format!("{bytes} bytes is less than {SMALLEST}")));
    }
    let disk = folder.disk();
    let fresh = folder.fresh_disk();
    remove_if_there(&fresh).map_err(host_error(STEP, &fresh))?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|file| file.set_len(bytes).map(|()| file))
        .map_err(host_error(STEP, &fresh))?;
    let mut mkfs = tool("mkfs.ext4");
    // The file is new and reads as zeros, so mkfs needs to write no zeros and discard nothing.
    mkfs.args(["-q", "-F", "-m", "0", "-I", "256", "-L", "hotdesk"])
        .args([
            "-E",
            "assume_storage_prezeroed=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
        ])
        .arg(&fresh);
    run(STEP, mkfs)?;
    file.sync_all().map_err(host_error(STEP, &fresh))?;
    std::fs::rename(&fresh, &disk).map_err(host_error(STEP, &disk))?;
    sync_folder(&folder.path).map_err(host_error(STEP, &folder.path))
}

/// Grows the disk to at least `bytes`; it never shrinks. The disk must not be in use. The tools share the
/// machine's lock, so if the controller dies, no other starts the machine before they end.
pub(crate) fn grow(disk: &Path, bytes: u64, lock: &MachineLock) -> EngineResult<()> {
    const STEP: &str = "grow the disk";
    let failed = host_error(STEP, disk);
    let mut file = lengthened(disk, bytes).map_err(&failed)?;
    // The superblock says what the file system has: a growth that a crash interrupted is finished at the next
    // start. The file may be longer than `bytes` after a failed live growth.
    let mut superblock = [0; SUPERBLOCK_BYTES];
    file.seek(SeekFrom::Start(SUPERBLOCK_AT))
        .and_then(|_| file.read_exact(&mut superblock))
        .map_err(&failed)?;
    if file_system_bytes(&superblock).saturating_add(WHOLE_GROUP) > bytes {
        return Ok(());
    }
    let mut check = tool("e2fsck");
    check.args(["-f", "-p"]).arg(disk).stdin(lock.share().map_err(&failed)?);
    let (status, _, complaint) = run_with_timeout(STEP, &mut check, None, GROW_TIMEOUT)?;
    // e2fsck exits with 1 for "errors were corrected".
    if status.code() != Some(1) {
        check_status(STEP, status, &complaint)?;
    }
    let mut resize = tool("resize2fs");
    resize.arg(disk).arg(format!("{}K", bytes >> 10)).stdin(lock.share().map_err(&failed)?);
    let (status, _, complaint) = run_with_timeout(STEP, &mut resize, None, GROW_TIMEOUT)?;
    check_status(STEP, status, &complaint)
}

/// Whether disks can grow while their machines run: the kernel requires `CAP_SYS_RESOURCE`, which root lacks
/// inside some containers.
pub(crate) fn grows_live() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// [`grow`] for a disk in use: the file, its loop device, the file system, in this order. Returns
/// `AtNextStart` if the kernel does not grow a mounted file system.
pub(crate) fn grow_live(disk: &Path, bytes: u64) -> EngineResult<Effect> {
    const STEP: &str = "grow the disk in use";
    let failed = host_error(STEP, disk);
    let mounted = if grows_live() { FsHandle::of(disk)? } else { None };
    let Some(mounted) = mounted else { return Ok(Effect::AtNextStart) };
    lengthened(disk, bytes).map_err(&failed)?;
    syscalls::refresh_loop(&mounted.device).map_err(&failed)?;
    let stat = rustix::fs::fstatvfs(&mounted.root).map_err(|error| failed(error.into()))?;
    let refused = match filesystem::grow_ext4(mounted.root.as_fd(), bytes / stat.f_bsize.max(1)) {
        Ok(()) => return Ok(Effect::Live),
        Err(refused) => refused,
    };
    match refused.raw_os_error() {
        Some(nix::libc::EPERM | nix::libc::EOPNOTSUPP | nix::libc::ENOTTY) => Ok(Effect::AtNextStart),
        _ => Err(failed(refused)),
    }
}

/// Opens the disk's file and extends it to at least `bytes`.
fn lengthened(disk: &Path, bytes: u64) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(disk)?;
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
        file.sync_all()?;
    }
    Ok(file)
}

/// The size in bytes of the file system of a superblock (kernel documentation, ext4 disk layout, "The Super
/// Block").
fn file_system_bytes(superblock: &[u8; SUPERBLOCK_BYTES]) -> u64 {
    let number = |at: usize| {
        let bytes = superblock.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    let blocks = number(0x4) | number(0x150) << 32;
    blocks.saturating_mul(1024 << number(0x18).min(6))
}

/// Free bytes on the host's disk under a folder.
pub(crate) fn free_bytes(folder: &Path) -> EngineResult<u64> {
    let stat = file_system(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes of the whole file system under a folder.
pub(crate) fn total_bytes(folder: &Path) -> EngineResult<u64> {
    let stat = file_system(folder)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

fn file_system(folder: &Path) -> EngineResult<rustix::fs::StatVfs> {
    rustix::fs::statvfs(folder).map_err(|error| host_error("look for free space", folder)(error.into()))
}

/// Fails with `NoCapacity` when the host's disk is nearly full.
pub(crate) fn check_reserve(folder: &Path) -> EngineResult<()> {
    check_free_space(folder, 0)
}

/// Fails with `NoCapacity` when the host's disk would be nearly full with `bytes` more.
pub(crate) fn check_free_space(folder: &Path, bytes: u64) -> EngineResult<()> {
    let free = free_bytes(folder)?;
    if free < bytes.saturating_add(HOST_RESERVE) {
        let (free, bytes, reserved) = (free >> 20, bytes >> 20, HOST_RESERVE >> 20);
        let detail =
            format!("{}: {free} MiB free, {bytes} MiB needed, {reserved} MiB reserved", folder.display());
        return Err(EngineError::NoCapacity(Shortage::DiskSpace, detail));
    }
    Ok(())
}
