//! How is a machine's disk made and grown? A sparse file with ext4: what the guest can store is bounded by its size,
//! what the host spends is what the guest has stored.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};

use super::command::{host_error, judge, run, run_patiently, tool};
use super::kernel;
use super::layout::{Folder, remove_if_there, sync_folder};
use super::lock::MachineLock;
use super::mounted::Mounted;
use crate::{Effect, EngineError, EngineResult};
use hotdesk_base::filesystem;

/// Smallest disk: below this ext4 with its journal leaves a guest nothing.
pub(super) const SMALLEST: u64 = 64 << 20;
/// Free space that the host keeps: below it machines are neither made nor started, so that the controller can still
/// write its log and the running guests have a while before their writes fail.
const HOST_RESERVE: u64 = 512 << 20;
/// Where ext4's superblock is, and how long.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
/// A group of blocks: ext4 grows by whole ones, so that less than this may be left over.
const WHOLE_GROUP: u64 = 128 << 20;
/// A check of a full disk of hundreds of gigabytes; a resize cut short could damage it.
const GROW_TIMEOUT: Duration = Duration::from_secs(600);

/// A bound on what a guest reads from its disk, and the same on what it writes there; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Megabytes (10^6 bytes) a second; 0 is without a bound.
    pub mb_per_second: u32,
    /// Operations a second; 0 is without a bound.
    pub ops_per_second: u32,
}

/// Makes `disk.img`. It gets its name when it is whole and on the host's disk.
pub(super) fn make(folder: &Folder, bytes: u64) -> EngineResult<()> {
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
    // The file is new and reads as zeros: nothing needs to be written or discarded to know that.
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

/// Lets the disk have at least `bytes`; it never shrinks. The disk may not be in use: the tools that change it hold a
/// share of the machine's lock, so that nobody starts the machine over their heads should the controller die.
pub(super) fn grow(disk: &Path, bytes: u64, held: &MachineLock) -> EngineResult<()> {
    const STEP: &str = "grow the disk";
    let failed = host_error(STEP, disk);
    let mut file = lengthened(disk, bytes).map_err(&failed)?;
    // Read anew rather than remembered: a growth cut short by a crash is finished at the next start. The file may be
    // longer than asked: a growth that failed while the machine ran leaves it so.
    let mut superblock = [0; SUPERBLOCK_BYTES];
    file.seek(SeekFrom::Start(SUPERBLOCK_AT))
        .and_then(|_| file.read_exact(&mut superblock))
        .map_err(&failed)?;
    if file_system_bytes(&superblock).saturating_add(WHOLE_GROUP) > bytes {
        return Ok(());
    }
    let mut check = tool("e2fsck");
    check.args(["-f", "-p"]).arg(disk).stdin(held.share().map_err(&failed)?);
    let (status, _, complaint) = run_patiently(STEP, &mut check, None, GROW_TIMEOUT)?;
    // e2fsck says 1 for "errors were corrected".
    if status.code() != Some(1) {
        judge(STEP, status, &complaint)?;
    }
    let mut resize = tool("resize2fs");
    resize.arg(disk).arg(format!("{}K", bytes >> 10)).stdin(held.share().map_err(&failed)?);
    let (status, _, complaint) = run_patiently(STEP, &mut resize, None, GROW_TIMEOUT)?;
    judge(STEP, status, &complaint)
}

/// Whether disks can grow while their machines run: the kernel asks for `CAP_SYS_RESOURCE`, which root may lack inside
/// a container of its own.
pub(super) fn grows_live() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// As [`grow`], for a disk in use: the file, its loop device, the file system, in this order. A kernel that does not
/// grow a mounted file system leaves it to the next start.
pub(super) fn grow_live(disk: &Path, bytes: u64) -> EngineResult<Effect> {
    const STEP: &str = "grow the disk in use";
    let failed = host_error(STEP, disk);
    let mounted = if grows_live() { Mounted::of(disk)? } else { None };
    let Some(mounted) = mounted else { return Ok(Effect::AtNextStart) };
    lengthened(disk, bytes).map_err(&failed)?;
    kernel::refresh_loop(&mounted.device).map_err(&failed)?;
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

/// The disk's file, with at least `bytes`.
fn lengthened(disk: &Path, bytes: u64) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(disk)?;
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
        file.sync_all()?;
    }
    Ok(file)
}

/// How many bytes a superblock says that its file system has (ext4 disk layout, "The Super Block").
fn file_system_bytes(superblock: &[u8; SUPERBLOCK_BYTES]) -> u64 {
    let number = |at: usize| {
        let bytes = superblock.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    let blocks = number(0x4) | number(0x150) << 32;
    blocks.saturating_mul(1024 << number(0x18).min(6))
}

/// Free space on the host's disk under a folder.
pub(super) fn free_bytes(folder: &Path) -> EngineResult<u64> {
    let stat = rustix::fs::statvfs(folder)
        .map_err(|error| host_error("look for free space", folder)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses when the host's disk is nearly full.
pub(super) fn check_reserve(folder: &Path) -> EngineResult<()> {
    check_room(folder, 0)
}

/// Refuses when the host's disk would be nearly full with `bytes` more.
pub(super) fn check_room(folder: &Path, bytes: u64) -> EngineResult<()> {
    let free = free_bytes(folder)?;
    if free < bytes.saturating_add(HOST_RESERVE) {
        let (free, bytes, kept) = (free >> 20, bytes >> 20, HOST_RESERVE >> 20);
        let detail = format!("{}: {free} MiB free, {bytes} MiB needed, {kept} MiB kept", folder.display());
        return Err(EngineError::NoCapacity(detail));
    }
    Ok(())
}
