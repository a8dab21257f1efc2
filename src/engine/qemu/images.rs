//! Read-only disks that virtual machines share: the guest image, layers and the agent, each made once.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::host::command::{check_status, host_error, run_with_timeout, tool};
use crate::host::files::{private_folder, remove_if_there, sync_folder};
use crate::state::disk::{self, copy};
use crate::state::layout::StateDir;
use crate::state::{agent_binary, trash};
use crate::{EngineError, EngineResult};

/// A large image takes half a minute on an idle host; this is for a busy one.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes for folders, inodes and tables of the file system, besides an eighth of the files; measured to be
/// enough.
const SPARE: u64 = 64 << 20;

/// The disk of an image's or a layer's root folder, which lies beside it.
pub(super) fn disk_of(image: &Path) -> PathBuf {
    image.join("rootfs.ext4")
}

/// Returns [`disk_of`] an image or a layer, which is never changed in place. Makes it under the folder's lock when missing.
/// Blocks.
pub(super) fn of_image(image: &Path) -> EngineResult<PathBuf> {
    const STEP: &str = "make the disk of an image or a layer";
    let (made, fresh) = (disk_of(image), image.join("rootfs.ext4.new"));
    let failed = host_error(STEP, &made);
    if made.try_exists().map_err(&failed)? {
        return Ok(made);
    }
    let held = File::open(image).map_err(&failed)?;
    flock(&held, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    if made.try_exists().map_err(&failed)? {
        return Ok(made);
    }
    let rootfs = image.join("rootfs");
    make(STEP, &rootfs, &fresh)?;
    File::open(&fresh)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&fresh, &made))
        .and_then(|()| sync_folder(image))
        .map_err(&failed)?;
    Ok(made)
}

/// Returns the disk with the agent's executable, named by its content. Makes it when missing. Blocks.
pub(super) fn of_agent(binary: &Path, state: &StateDir) -> EngineResult<PathBuf> {
    const STEP: &str = "make the agent's disk";
    agent_binary::install_as(binary, state, ".ext4", |fresh| {
        let folder = state.trash().join(uuid::Uuid::new_v4().to_string());
        let failed = host_error(STEP, &folder);
        private_folder(&folder).map_err(&failed)?;
        let program = folder.join("hotdesk");
        let copied = fs::copy(binary, &program).map_err(&failed).and_then(|_| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(&failed)
        });
        let made = copied.and_then(|()| make(STEP, &folder, fresh));
        made.and(trash::remove_tree(&folder))
    })
}

/// Makes a file system from a folder. It is read-only, so it needs no journal.
fn make(step: &'static str, folder: &Path, disk: &Path) -> EngineResult<()> {
    let (bytes, files) = size(folder).map_err(host_error(step, folder))?;
    let parent = disk.parent().ok_or_else(|| EngineError::failed(step, "a path without a folder"))?;
    disk::check_free_space(parent, bytes)?;
    remove_if_there(disk).map_err(host_error(step, disk))?;
    let mut mkfs = tool("mke2fs");
    mkfs.args([
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal,^resize_inode",
        "-m",
        "0",
        "-I",
        "256",
        "-b",
        "4096",
    ])
    .args([
        "-N",
        &(files + files / 8 + 64).to_string(),
        "-L",
        "hotdesk",
        "-E",
        "nodiscard,root_owner=0:0",
        "-d",
    ])
    .arg(folder)
    .arg(disk)
    .arg(format!("{}K", (bytes + bytes / 8 + SPARE) >> 10));
    let (status, _, complaint) = run_with_timeout(step, &mut mkfs, None, TIMEOUT)?;
    check_status(step, status, &complaint)
}

/// Bytes of data in whole blocks, and number of files, below a folder. Holes of sparse files do not count.
fn size(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut files, mut open) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let data = entry.metadata()?;
            let is_sparse = data.is_file() && data.blocks().saturating_mul(512) < data.size();
            let length = if is_sparse { copy::data_bytes(&entry.path())? } else { data.size() };
            (bytes, files) = (bytes + length.next_multiple_of(4096), files + 1);
            if data.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok((bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_hole_needs_no_large_disk() {
        let temp = tempfile::tempdir().unwrap();
        let file = File::create(temp.path().join("sparse")).unwrap();
        file.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"end", (1 << 40) - 3).unwrap();
        let (bytes, files) = size(temp.path()).unwrap();
        assert!(bytes <= 64 << 10 && files == 1, "{bytes} bytes");
    }

    #[test]
    fn an_image_s_disk_is_made_once() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("rootfs/etc")).unwrap();
        fs::write(temp.path().join("rootfs/etc/name"), "first").unwrap();
        assert_eq!(size(&temp.path().join("rootfs")).unwrap().1, 2);
        let made = of_image(temp.path()).unwrap();
        let inode = fs::metadata(&made).unwrap().ino();
        assert_eq!(of_image(temp.path()).unwrap(), made);
        assert_eq!(fs::metadata(&made).unwrap().ino(), inode);
        assert!(!temp.path().join("rootfs.ext4.new").exists());
    }
}
