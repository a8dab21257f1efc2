//! Free space of the disk of a data folder, and failures of the disk.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfs, statvfs};

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Returns the facts of a folder's file system.
///
/// # Errors
/// `Internal` when it cannot be queried.
pub fn file_system(folder: &Path) -> Result<StatVfs> {
    statvfs(folder).map_err(|error| failed("query the free space of", folder, &error.into()))
}

/// Returns the free bytes of a folder's file system.
///
/// # Errors
/// `Internal` when it cannot be queried.
pub fn free_bytes(folder: &Path) -> Result<u64> {
    let stat = file_system(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Checks that `reserve` bytes and `bytes` more are free in a folder.
///
/// # Errors
/// `Unavailable` (`disk_full`) when fewer are free; `Internal` when the disk cannot be queried.
pub fn check_free_space(folder: &Path, reserve: u64, bytes: u64) -> Result<()> {
    if free_bytes(folder)? < reserve.saturating_add(bytes) {
        return Err(failed("leave free space in", folder, &io::ErrorKind::StorageFull.into()));
    }
    Ok(())
}

/// Converts a disk failure: a full disk is `Unavailable` (`disk_full`), any other is `Internal`. See T20
/// (docs/security.md).
pub fn failed(step: &str, path: &Path, error: &io::Error) -> Error {
    let context = format!("{step} {}: {error}", path.display());
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Error::unavailable("The service's disk is full")
            .code(ErrorCode::DiskFull)
            .retry_after(60)
            .context(context);
    }
    Error::internal(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Kind;

    #[test]
    fn the_reserve_and_what_is_written_must_be_free() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &Path, reserve, bytes| {
            check_free_space(path, reserve, bytes).err().map(|error| (error.kind, error.code))
        };
        let full = Some((Kind::Unavailable, Some(ErrorCode::DiskFull)));
        assert_eq!(refusal(folder.path(), 0, 1), None);
        for (reserve, bytes) in [(1 << 60, 0), (0, 1 << 60), (u64::MAX, 1)] {
            assert_eq!(refusal(folder.path(), reserve, bytes), full);
        }
        assert_eq!(refusal(&folder.path().join("none"), 0, 0), Some((Kind::Internal, None)));
    }
}
