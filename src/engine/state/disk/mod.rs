//! Creation and growth of a machine's disk: ext4 in a sparse file. Its size limits what the guest can store;
//! the host spends only what the guest has stored.

pub(crate) mod copy;
pub(crate) mod prepared;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};

use crate::host::command::{check_status, host_error, run, tool};
use crate::host::files::{remove_if_there, sync_folder};
use crate::host::fs_handle::FsHandle;
use crate::host::sandbox::{self, GuestFile};
use crate::host::syscalls;
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::{Effect, EngineError, EngineResult, Shortage};
use hotdesk_base::filesystem;
use hotdesk_domain::computer::disk_guard::HOST_RESERVE;

/// Smallest disk in bytes: below this, ext4 with its journal leaves no usable space.
pub(crate) const SMALLEST: u64 = 64 << 20;
const MKFS: &str = "mkfs.ext4";
/// The file that a tool has as standard input, whatever became of its name (proc(5)).
const STDIN: &str = "/proc/self/fd/0";
/// Sizes of disks whose table of block groups has place for growth to the end of the range. A larger growth
/// moves the table, which both the kernel and `resize2fs` can. Below a gibibyte `mkfs.ext4` may choose
/// other blocks.
const RESERVED_GROWTH: Range<u64> = (1 << 30)..(1 << 40);
/// Bytes of a block that `mkfs.ext4` chooses for these sizes.
const MKFS_BLOCK: u64 = 4096;
/// Inodes of the host that stay free, for the disks and records of machines.
const RESERVED_INODES: u64 = 100_000;
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

/// Makes `disk.img` by `mkfs.ext4`. It gets its name once it is complete and synced. Machines get copies of
/// [`prepared`] disks.
pub(crate) fn make(folder: &Folder, bytes: u64) -> EngineResult<()> {
    make_at(&folder.fresh_disk(), &folder.disk(), bytes)
}

/// Makes an empty file system in a file that is named `fresh` until it is complete and synced, then `to`,
/// in the same folder. Blocks.
fn make_at(fresh: &Path, to: &Path, bytes: u64) -> EngineResult<()> {
    const STEP: &str = "make the disk";
    if bytes < SMALLEST {
        return Err(EngineError::failed(STEP, format!("{bytes} bytes is less than {SMALLEST}")));
    }
    let failed = host_error(STEP, fresh);
    let folder = to.parent().ok_or_else(|| EngineError::failed(STEP, "a path without a folder"))?;
    remove_if_there(fresh).map_err(&failed)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(fresh)
        .and_then(|file| file.set_len(bytes).map(|()| file))
        .map_err(&failed)?;
    run(STEP, mkfs(file.try_clone().map_err(&failed)?, bytes))?;
    file.sync_all().map_err(&failed)?;
    std::fs::rename(fresh, to).map_err(host_error(STEP, to))?;
    sync_folder(folder).map_err(host_error(STEP, folder))
}

/// The tool that makes a file system in an open file. It gets no name: when this controller dies here, the
/// next one makes a file of the same name, and the tool that still runs must not open that one.
fn mkfs(file: File, bytes: u64) -> Command {
    let mut mkfs = tool(MKFS);
    mkfs.args(mkfs_arguments(bytes)).arg(STDIN).stdin(file);
    mkfs
}

/// The options of `mkfs.ext4` for a file of this length, which is new and reads as zeros, so it needs to
/// write no zeros and discard nothing. With `metadata_csum_seed` a copy can get another UUID by a change of
/// its superblock alone.
fn mkfs_arguments(bytes: u64) -> Vec<String> {
    let options =
        "assume_storage_prezeroed=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"
            .to_owned();
    // The default reserves 4 MiB of written blocks, for growth to a thousand times the size.
    let reserve = if RESERVED_GROWTH.contains(&bytes) {
        format!(",resize={}", RESERVED_GROWTH.end / MKFS_BLOCK)
    } else {
        String::new()
    };
    let fixed =
        ["-q", "-F", "-m", "0", "-I", "256", "-L", "hotdesk", "-O", "metadata_csum,metadata_csum_seed", "-E"];
    fixed.into_iter().map(str::to_owned).chain([options + &reserve]).collect()
}

/// Grows the disk to at least `bytes`; it never shrinks. The disk must not be in use. The tools run in a
/// sandbox as `user`, because a virtual machine may have written anything to the disk. They share the
/// machine's lock, so if the controller dies, no other starts the machine before they end.
pub(crate) fn grow(disk: &Path, bytes: u64, user: u32, lock: &MachineLock) -> EngineResult<()> {
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
    let guest_file = GuestFile { path: disk, user };
    let run = |program, arguments: &[&str]| {
        guest_file.run_tool(STEP, program, arguments, lock.share().map_err(&failed)?, GROW_TIMEOUT)
    };
    let (status, output) = run("e2fsck", &["-f", "-p", sandbox::FILE])?;
    // e2fsck exits with 1 for "errors were corrected".
    if status.code() != Some(1) {
        check_status(STEP, status, &output)?;
    }
    let (status, output) = run("resize2fs", &[sandbox::FILE, &format!("{}K", bytes >> 10)])?;
    check_status(STEP, status, &output)
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

/// Bytes in use of the whole file system under a folder.
pub(crate) fn used_bytes(folder: &Path) -> EngineResult<u64> {
    let stat = file_system(folder)?;
    Ok(stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize))
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

/// Checks that the host's file system keeps its reserves of bytes and inodes when `bytes` and `files` are
/// added under a folder.
///
/// # Errors
/// `NoCapacity` when it does not.
pub fn check_free(folder: &Path, bytes: u64, files: u64) -> EngineResult<()> {
    check_free_space(folder, bytes)?;
    let stat = file_system(folder)?;
    // A file system without a table of inodes has 0 of them.
    if stat.f_files > 0 && stat.f_favail < files.saturating_add(RESERVED_INODES) {
        let (path, free) = (folder.display(), stat.f_favail);
        let detail = format!("{path}: {free} inodes free, {files} needed, {RESERVED_INODES} reserved");
        return Err(EngineError::NoCapacity(Shortage::DiskSpace, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;
    use hotdesk_base::ids::ComputerId;

    /// A user id that no machine of a default configuration has.
    const USER: u32 = 1_999_100_000;

    /// A machine with a disk of [`SMALLEST`] bytes. `None` without root.
    fn a_machine(temp: &tempfile::TempDir) -> Option<(Folder, MachineLock)> {
        if !nix::unistd::geteuid().is_root() {
            hotdesk_capability::Capability::Root.skip("a sandbox needs namespaces");
            return None;
        }
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        make(&folder, SMALLEST).unwrap();
        let lock = MachineLock::try_acquire(&folder).unwrap().unwrap();
        Some((folder, lock))
    }

    fn size_of(disk: &Path) -> u64 {
        let mut superblock = [0; SUPERBLOCK_BYTES];
        File::open(disk).unwrap().read_exact_at(&mut superblock, SUPERBLOCK_AT).unwrap();
        file_system_bytes(&superblock)
    }

    #[test]
    fn a_tool_that_outlives_its_controller_does_not_touch_the_next_one_s_file() {
        let temp = tempfile::tempdir().unwrap();
        let name = temp.path().join("new");
        let open = || File::options().read(true).write(true).create_new(true).open(&name).unwrap();
        let first = open();
        first.set_len(SMALLEST).unwrap();
        let tool = mkfs(first.try_clone().unwrap(), SMALLEST);
        std::fs::remove_file(&name).unwrap();
        let second = open();
        second.set_len(SMALLEST).unwrap();
        run("make a file system", tool).unwrap();
        let mut superblock = [0; SUPERBLOCK_BYTES];
        first.read_exact_at(&mut superblock, SUPERBLOCK_AT).unwrap();
        assert_eq!(file_system_bytes(&superblock), SMALLEST);
        assert_eq!(second.metadata().unwrap().blocks(), 0);
    }

    #[test]
    fn a_disk_grows_in_the_sandbox_and_stays_root_s() {
        let temp = tempfile::tempdir().unwrap();
        let Some((folder, lock)) = a_machine(&temp) else { return };
        let disk = folder.disk();
        for bytes in [300 << 20, 200 << 20] {
            grow(&disk, bytes, USER, &lock).unwrap();
            assert_eq!((size_of(&disk), fs_length(&disk)), (300 << 20, 300 << 20));
        }
        let data = std::fs::metadata(&disk).unwrap();
        assert_eq!((data.uid(), data.mode() & 0o777), (0, 0o600));
        drop(lock);
        assert!(MachineLock::try_acquire(&folder).unwrap().is_some(), "no tool holds the lock");
    }

    fn fs_length(disk: &Path) -> u64 {
        std::fs::metadata(disk).unwrap().len()
    }

    #[test]
    fn a_crafted_disk_is_refused_with_the_words_of_the_tool() {
        let temp = tempfile::tempdir().unwrap();
        let Some((folder, lock)) = a_machine(&temp) else { return };
        let disk = folder.disk();
        let file = OpenOptions::new().write(true).open(&disk).unwrap();
        // The journal's inode and others become noise. A name that the tools print has line breaks.
        file.write_all_at(b"a\nlabel\x1b[2J", SUPERBLOCK_AT + 0x78).unwrap();
        file.write_all_at(&[0xA5; 512 << 10], 8 << 10).unwrap();
        let refused = format!("{:#}", grow(&disk, 300 << 20, USER, &lock).unwrap_err());
        assert!(refused.contains("could not grow the disk") && refused.contains("exit status"), "{refused}");
        assert!(!refused.contains(char::is_control), "{refused:?}");
        // Numbers that no file system has: sizes of blocks, groups and inodes.
        for at in [0x18, 0x20, 0x28, 0x58] {
            file.write_all_at(&[0xFF; 4], SUPERBLOCK_AT + at).unwrap();
        }
        file.write_all_at(&[1, 0, 0, 0], SUPERBLOCK_AT + 4).unwrap();
        grow(&disk, 300 << 20, USER, &lock).unwrap_err();
        // A file system that claims to be large enough is not touched.
        file.write_all_at(&[0xFF; 4], SUPERBLOCK_AT + 4).unwrap();
        grow(&disk, 300 << 20, USER, &lock).unwrap();
        assert_eq!(std::fs::metadata(&disk).unwrap().uid(), 0);
    }
}
