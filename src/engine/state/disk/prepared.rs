//! Prepared disks: the empty file system of each size is made once, and copied for each new machine.
//!
//! `mkfs.ext4` takes 10 to 35 ms. A copy of the megabyte that it writes takes one, and nothing where files
//! share blocks.
//!
//! ```text
//!   nothing -- mkfs.ext4 to `new`, sync, rename --> <state>/disks/<hash>.img -- copy, new UUID --> disk.img
//! ```
//! The hash is of all that decides the content: size, arguments, program, and the defaults of the host. So
//! a change of these makes another file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::copy::copy_disk_during;
use super::{MKFS, SUPERBLOCK_AT, SUPERBLOCK_BYTES, make_at, mkfs_arguments};
use crate::EngineResult;
use crate::host::command::{fingerprint, host_error};
use crate::host::files::remove_if_there;
use crate::state::layout::{Folder, StateDir};
use hotdesk_base::hex::hex;

const STEP: &str = "prepare an empty disk";
/// Defaults of the host for `mkfs.ext4` (mke2fs.conf(5)).
const DEFAULTS: &str = "/etc/mke2fs.conf";
/// Most prepared disks: one for each size that is usual on a host, at about a megabyte. Beyond it all are
/// made again.
const MOST: usize = 32;
/// Offset of the UUID in the superblock (kernel documentation, ext4 disk layout, "The Super Block").
const UUID_AT: usize = 0x68;
const UUID_BYTES: usize = 16;
/// Offset of the superblock's checksum, which is of all bytes before it.
const CHECKSUM_AT: usize = 0x3FC;

/// Makes `disk.img` of a machine, a copy of the prepared one of this size. It gets its name once it is
/// complete and synced. `turn` belongs to the state folder. Blocks.
///
/// # Errors
/// Those of [`super::make`] and of a copy.
pub(crate) fn copy_to(folder: &Folder, bytes: u64, state: &StateDir, turn: &RwLock<()>) -> EngineResult<()> {
    let prepared = path(state, bytes)?;
    let is_there = || prepared.try_exists().map_err(host_error(STEP, &prepared));
    {
        let _copying = turn.read().unwrap_or_else(PoisonError::into_inner);
        if is_there()? {
            return copy(&prepared, folder);
        }
    }
    let _making = turn.write().unwrap_or_else(PoisonError::into_inner);
    if !is_there()? {
        remove_surplus(&state.disks())?;
        make_at(&state.disks().join("new"), &prepared, bytes)?;
    }
    copy(&prepared, folder)
}

/// The prepared disk of this size, which may not be there yet.
fn path(state: &StateDir, bytes: u64) -> EngineResult<PathBuf> {
    let defaults = match fs::read(DEFAULTS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        defaults => defaults.map_err(host_error(STEP, Path::new(DEFAULTS)))?,
    };
    let inputs = format!("{bytes} {:?} {}", mkfs_arguments(bytes), fingerprint(MKFS));
    let mut sum = Sha256::new();
    sum.update(inputs);
    sum.update(defaults);
    let name = hex(sum.finalize().get(..16).unwrap_or_default());
    Ok(state.disks().join(name + ".img"))
}

/// Removes all prepared disks once there are too many, among them those of earlier inputs.
fn remove_surplus(folder: &Path) -> EngineResult<()> {
    let failed = host_error(STEP, folder);
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(&failed)?;
    if entries.len() >= MOST {
        for entry in entries {
            remove_if_there(&entry.path()).map_err(&failed)?;
        }
    }
    Ok(())
}

/// Copies a prepared disk. The copy has a UUID of its own, as if `mkfs.ext4` had made it.
fn copy(prepared: &Path, folder: &Folder) -> EngineResult<()> {
    let failed = host_error(STEP, prepared);
    let mut superblock = [0; SUPERBLOCK_BYTES];
    File::open(prepared)
        .and_then(|file| file.read_exact_at(&mut superblock, SUPERBLOCK_AT))
        .map_err(&failed)?;
    set_uuid(&mut superblock, Uuid::new_v4());
    copy_disk_during(prepared, &folder.fresh_disk(), &folder.disk(), |copy| {
        let copied = copy(None)?;
        copied.write_all_at(&superblock, SUPERBLOCK_AT).map_err(&failed)?;
        Ok(copied)
    })
}

/// Sets the UUID of a superblock with `metadata_csum_seed`: no other checksum depends on it. The backups of
/// the superblock keep the earlier one, until `e2fsck` or a growth writes them.
fn set_uuid(superblock: &mut [u8; SUPERBLOCK_BYTES], uuid: Uuid) {
    superblock[UUID_AT..UUID_AT + UUID_BYTES].copy_from_slice(uuid.as_bytes());
    let sum = crc32c(&superblock[..CHECKSUM_AT]);
    superblock[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32C (RFC 3720, appendix B.4) as ext4 stores it: from all bits set, without the final complement.
fn crc32c(bytes: &[u8]) -> u32 {
    /// The polynomial, its bits reversed.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::host::command::{run, tool};
    use crate::host::files::private_folder;
    use crate::state::disk::SMALLEST;
    use hotdesk_base::ids::ComputerId;

    fn a_machine(state: &StateDir) -> Folder {
        let folder = state.folder(ComputerId::random());
        private_folder(&folder.path).unwrap();
        folder
    }

    fn uuid_of(folder: &Folder) -> [u8; UUID_BYTES] {
        let mut uuid = [0; UUID_BYTES];
        let at = SUPERBLOCK_AT + UUID_AT as u64;
        File::open(folder.disk()).unwrap().read_exact_at(&mut uuid, at).unwrap();
        uuid
    }

    #[test]
    fn the_checksum_is_that_of_rfc_3720_before_the_complement() {
        assert_eq!(!crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(!crc32c(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn machines_get_sound_disks_with_uuids_of_their_own_from_one_prepared_disk() {
        let temp = tempfile::tempdir().unwrap();
        let (state, turn) = (StateDir::open(temp.path()).unwrap(), RwLock::default());
        // The small one has other blocks.
        for bytes in [SMALLEST, 8 << 30] {
            let machines = [a_machine(&state), a_machine(&state)];
            let prepared = path(&state, bytes).unwrap();
            let mut made = None;
            for folder in &machines {
                copy_to(folder, bytes, &state, &turn).unwrap();
                let data = fs::metadata(&prepared).unwrap();
                assert_eq!(
                    *made.get_or_insert((data.ino(), data.mtime_nsec())),
                    (data.ino(), data.mtime_nsec())
                );
                let data = fs::metadata(folder.disk()).unwrap();
                assert_eq!((data.len(), data.mode() & 0o777), (bytes, 0o600));
                assert!(data.blocks() * 512 < 8 << 20, "{} blocks", data.blocks());
                assert!(!folder.fresh_disk().exists());
                let mut check = tool("e2fsck");
                check.args(["-f", "-n"]).arg(folder.disk());
                run("check the copy", check).unwrap();
            }
            assert_ne!(uuid_of(&machines[0]), uuid_of(&machines[1]));
        }
    }

    #[test]
    fn a_half_made_disk_is_not_used_and_other_inputs_make_another() {
        let temp = tempfile::tempdir().unwrap();
        let (state, turn) = (StateDir::open(temp.path()).unwrap(), RwLock::default());
        // A controller that died while it made one.
        fs::write(state.disks().join("new"), "half").unwrap();
        let folder = a_machine(&state);
        copy_to(&folder, SMALLEST, &state, &turn).unwrap();
        assert_eq!(fs::metadata(folder.disk()).unwrap().len(), SMALLEST);
        assert!(!state.disks().join("new").exists());
        assert_ne!(path(&state, SMALLEST).unwrap(), path(&state, SMALLEST * 2).unwrap());
    }

    #[test]
    fn prepared_disks_are_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let (state, turn) = (StateDir::open(temp.path()).unwrap(), RwLock::default());
        for number in 0..MOST {
            fs::write(state.disks().join(format!("{number}.img")), "of earlier inputs").unwrap();
        }
        copy_to(&a_machine(&state), SMALLEST, &state, &turn).unwrap();
        assert_eq!(fs::read_dir(state.disks()).unwrap().count(), 1);
    }
}
