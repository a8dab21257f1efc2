//! Copies of disk files: by reflink where the host's file system shares blocks, else extent by extent without
//! the holes. The copy gets its name once it is complete and synced.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{SeekFrom, copy_file_range, ioctl_ficlone, seek};

use crate::host::command::host_error;
use crate::host::files::{remove_if_there, sync_folder};
use crate::host::freeze;
use crate::host::syscalls::fscrypt;
use crate::state::disk;
use crate::{EngineError, EngineResult};

const STEP: &str = "copy the disk";
/// Bytes between two checks of the deadline and of the host's free space: a fraction of a second.
const PIECE: u64 = 32 << 20;

/// Copies the disk file `from`, in use or not, as of one moment. The copy is named `fresh` until it is
/// complete, then `to`, in the same folder. A failed copy leaves nothing. Blocks.
pub(crate) fn copy_disk(from: &Path, fresh: &Path, to: &Path) -> EngineResult<()> {
    copy_disk_during(from, fresh, to, |copy| freeze::with_frozen(from, copy))
}

/// [`copy_disk`] for a disk that `frozen` freezes while it calls back with the deadline of the copy.
pub(crate) fn copy_disk_during(
    from: &Path,
    fresh: &Path,
    to: &Path,
    frozen: impl FnOnce(&mut dyn FnMut(Option<Instant>) -> EngineResult<File>) -> EngineResult<File>,
) -> EngineResult<()> {
    let failed = host_error(STEP, fresh);
    let folder = to.parent().ok_or_else(|| EngineError::failed(STEP, "a path without a folder"))?;
    remove_if_there(fresh).map_err(&failed)?;
    let copied = frozen(&mut |deadline| contents(from, fresh, folder, deadline)).and_then(|copy| {
        copy.sync_all().map_err(&failed)?;
        fs::rename(fresh, to).map_err(host_error(STEP, to))?;
        sync_folder(folder).map_err(host_error(STEP, folder))
    });
    if copied.is_err()
        && let Err(error) = remove_if_there(fresh)
    {
        tracing::warn!(%error, path = %fresh.display(), "could not remove a failed copy");
    }
    copied
}

/// Hard-links a file that nothing writes, replacing what has that name; copies it into a folder that is
/// encrypted with another key, or not. Blocks.
pub(crate) fn link_or_copy(from: &Path, to: &Path) -> EngineResult<()> {
    const STEP: &str = "link a file of a machine";
    let failed = host_error(STEP, to);
    let folder = to.parent().ok_or_else(|| EngineError::failed(STEP, "a path without a folder"))?;
    let key = |path: &Path| File::open(path).and_then(|file| fscrypt::key_of(&file));
    remove_if_there(to).map_err(&failed)?;
    // The kernel also links an encrypted file into a plain folder, where it would stay unreadable without its key.
    if key(from).map_err(&failed)? == key(folder).map_err(&failed)? {
        match fs::hard_link(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            linked => return linked.map_err(failed),
        }
    }
    copy_disk_during(from, &to.with_extension("new"), to, |copy| {
        let copied = copy(None)?;
        let permissions = fs::metadata(from).map_err(host_error(STEP, from))?.permissions();
        copied.set_permissions(permissions).map_err(&failed)?;
        Ok(copied)
    })
}

/// Fails with `NoCapacity` when a folder has no space for a copy of the disk file `from`.
pub(crate) fn check_space(from: &Path, folder: &Path) -> EngineResult<()> {
    disk::check_reserve(folder)?;
    let bytes = File::open(from).and_then(|file| allocated(&file)).map_err(host_error(STEP, from))?;
    disk::check_free_space(folder, bytes)
}

/// Bytes that a file takes on the host's disk, without its holes.
pub(crate) fn allocated(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks().saturating_mul(512))
}

fn contents(from: &Path, fresh: &Path, folder: &Path, deadline: Option<Instant>) -> EngineResult<File> {
    let failed = host_error(STEP, fresh);
    let source = File::open(from).map_err(host_error(STEP, from))?;
    let copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh).map_err(&failed)?;
    // File systems report the lack of reflinks with several errors. A real error fails the copy below as
    // well.
    if ioctl_ficlone(&copy, &source).is_ok() {
        return Ok(copy);
    }
    disk::check_free_space(folder, allocated(&source).map_err(&failed)?)?;
    let length = source.metadata().and_then(|data| copy.set_len(data.len()).map(|()| data.len()));
    let (length, mut at) = (length.map_err(&failed)?, 0);
    while let Some((start, end)) = next_data(&source, at, length).map_err(&failed)? {
        at = start;
        while at < end {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(EngineError::failed(
                    STEP,
                    "it takes too long for a running machine: stop the computer first",
                ));
            }
            disk::check_reserve(folder)?;
            at += piece(&source, &copy, at, (end - at).min(PIECE)).map_err(&failed)?;
        }
    }
    Ok(copy)
}

/// Bytes of a file without its holes, whatever they take on the host's disk.
pub(crate) fn data_bytes(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let (mut at, mut bytes) = (0, 0);
    while let Some((start, end)) = next_data(&file, at, length)? {
        (at, bytes) = (end, bytes + (end - start));
    }
    Ok(bytes)
}

/// Start and end of the next data extent of a sparse file, from `at`.
fn next_data(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) if start < length => start,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some((start, seek(file, SeekFrom::Hole(start))?.min(length))))
}

/// Copies up to `bytes` at the same offset. Returns the number copied.
fn piece(source: &File, copy: &File, at: u64, bytes: u64) -> io::Result<u64> {
    let (mut read_at, mut write_at) = (at, at);
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    match copy_file_range(source, Some(&mut read_at), copy, Some(&mut write_at), bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        copied => u64::try_from(copied).map_err(io::Error::other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_copy_has_the_data_and_the_holes() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        let source = File::create_new(path("disk.img")).unwrap();
        source.set_len(1 << 30).unwrap();
        source.write_all_at(&[7; 10_000], 4096).unwrap();
        source.write_all_at(b"the end", (1 << 30) - 7).unwrap();
        fs::write(path("disk.new"), "left by a crash").unwrap();
        copy_disk(&path("disk.img"), &path("disk.new"), &path("copy.img")).unwrap();

        let copy = File::open(path("copy.img")).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), 1 << 30);
        let mut read = [0; 10_007];
        copy.read_exact_at(&mut read[..10_000], 4096).unwrap();
        copy.read_exact_at(&mut read[10_000..], (1 << 30) - 7).unwrap();
        assert!(read[..10_000].iter().all(|byte| *byte == 7));
        assert_eq!(&read[10_000..], b"the end");
        assert!(allocated(&copy).unwrap() < 1 << 20, "{}", allocated(&copy).unwrap());
        assert!(!path("disk.new").exists());
    }

    #[test]
    fn a_copy_that_is_late_fails_and_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let (from, fresh) = (temp.path().join("disk.img"), temp.path().join("disk.new"));
        fs::write(&from, "some data").unwrap();
        let past = Instant::now().checked_sub(std::time::Duration::from_secs(1));
        if let Ok(copy) = contents(&from, &fresh, temp.path(), past) {
            // With reflinks the copy is instant.
            assert_eq!(allocated(&copy).unwrap(), allocated(&File::open(&from).unwrap()).unwrap());
        }
        let missing = temp.path().join("nothing");
        copy_disk(&missing, &fresh, &temp.path().join("copy.img")).unwrap_err();
        assert!(!fresh.exists());
    }
}
