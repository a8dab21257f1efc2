//! How is a machine's disk made and grown? A sparse file with ext4: what the guest can store is bounded by its size,
//! what the host spends is what the guest has stored.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use super::command::{host_error, judge, run, run_patiently, tool};
use super::layout::{Folder, remove_if_there, sync_folder};
use super::lock::MachineLock;
use crate::engine::{EngineError, EngineResult};

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
const GROW_PATIENCE: Duration = Duration::from_secs(600);

/// Makes `disk.img`. It gets its name when it is whole and on the host's disk.
pub(super) fn make(folder: &Folder, bytes: u64) -> EngineResult<()> {
    const STEP: &str = "make the disk";
    if bytes < SMALLEST {
        return Err(EngineError::failed(STEP, format!("{bytes} bytes is less than {SMALLEST}")));
    }
    let disk = folder.disk();
    let fresh = folder.path.join("disk.new");
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
    let mut file = OpenOptions::new().read(true).write(true).open(disk).map_err(&failed)?;
    let mut size = file.metadata().map_err(&failed)?.len();
    if size < bytes {
        file.set_len(bytes).and_then(|()| file.sync_all()).map_err(&failed)?;
        size = bytes;
    }
    // Read anew rather than remembered: a growth cut short by a crash is finished at the next start.
    let mut superblock = [0; SUPERBLOCK_BYTES];
    file.seek(SeekFrom::Start(SUPERBLOCK_AT))
        .and_then(|_| file.read_exact(&mut superblock))
        .map_err(&failed)?;
    if file_system_bytes(&superblock).saturating_add(WHOLE_GROUP) > size {
        return Ok(());
    }
    let mut check = tool("e2fsck");
    check.args(["-f", "-p"]).arg(disk).stdin(held.share().map_err(&failed)?);
    let (status, _, complaint) = run_patiently(STEP, &mut check, None, GROW_PATIENCE)?;
    // e2fsck says 1 for "errors were corrected".
    if status.code() != Some(1) {
        judge(STEP, status, &complaint)?;
    }
    let mut resize = tool("resize2fs");
    resize.arg(disk).stdin(held.share().map_err(&failed)?);
    let (status, _, complaint) = run_patiently(STEP, &mut resize, None, GROW_PATIENCE)?;
    judge(STEP, status, &complaint)
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
    let free = free_bytes(folder)?;
    if free < HOST_RESERVE {
        let detail =
            format!("{}: {} MiB free, {} MiB are kept", folder.display(), free >> 20, HOST_RESERVE >> 20);
        return Err(EngineError::NoCapacity(detail));
    }
    Ok(())
}
