//! Disk space reserve, so that the store can write on a full disk.
//!
//! Deleting and stopping need a few pages, and they free the space again (T20, docs/security.md).
//!
//! While the store is open, the reserve is inside its own files: the log keeps its allocated length, and the
//! database has as many free pages. While it is closed, the log does not exist and a file `hotdesk.room`
//! holds the reserve.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use sqlx::{AnyPool, Executor};

/// Size of the reserve in bytes: twice what is written between two checkpoints, for the log and the database.
const RESERVE_BYTES: u64 = 2 * 1024 * 1024;

/// Log pages after which SQLite runs a checkpoint: 512 KiB, a quarter of [`RESERVE_BYTES`]; a transaction
/// changes about ten.
pub(super) const CHECKPOINT_PAGES: u32 = 128;

fn reserve_file(store: &Path) -> PathBuf {
    store.with_extension("room")
}

/// Deletes the reserve file of a store that is about to be opened.
pub(super) fn release(store: &Path) -> io::Result<()> {
    match std::fs::remove_file(reserve_file(store)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Grows the files of the open store by the reserve. On a full disk they stay as they are.
pub(super) async fn reserve_in_files(pool: &AnyPool) {
    // One row of half the reserve becomes free pages: the database grows by it, and the log gets as long.
    let fill = format!(
        "INSERT INTO meta (name, value) VALUES ('room', hex(zeroblob({}))) ON CONFLICT (name) DO NOTHING; \
         DELETE FROM meta WHERE name = 'room'; PRAGMA wal_checkpoint(RESTART);",
        RESERVE_BYTES / 4
    );
    if let Err(error) = pool.execute(sqlx::AssertSqlSafe(fill)).await {
        tracing::warn!(%error, "cannot reserve disk space in the store: on a full disk it may not be able to write; free some space and restart");
    }
}

/// Allocates the reserve file of a store that was closed.
pub(super) fn reserve_on_close(store: &Path) {
    let reserved = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(reserve_file(store))
        .and_then(|file: File| {
            fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES).map_err(io::Error::from)
        });
    if let Err(error) = reserved {
        tracing::warn!(%error, "cannot reserve disk space for the closed store: on a full disk it may not start; free some space");
    }
}
