//! How does the store go on writing when others have filled its disk? It holds room from the start: deleting and stopping
//! need a few pages, and they are what makes room again (threats.md T20).
//!
//! While open, the room is in the store's own files: the log has been this long once and is written again from its start,
//! and the file has as many free pages. While closed the log is gone, and a file of its own holds the room.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use sqlx::{AnyPool, Executor};

/// Held on the disk: twice what is written between two checkpoints, for the log and for the store's file.
const ROOM: u64 = 2 * 1024 * 1024;

/// Pages of the log after which it is folded into the file: 512 KiB, a quarter of [`ROOM`]; a transaction here changes
/// about ten.
pub(super) const CHECKPOINT_PAGES: u32 = 128;

fn holder(store: &Path) -> PathBuf {
    store.with_extension("room")
}

/// Gives the room to the store that is about to be opened.
pub(super) fn give(store: &Path) -> io::Result<()> {
    match std::fs::remove_file(holder(store)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets the open store's files take the room. On a full disk they keep what they have.
pub(super) async fn take(pool: &AnyPool) {
    // Half the room as one row, which becomes free pages: the file has grown by it, the log is as long.
    let fill = format!(
        "INSERT INTO meta (name, value) VALUES ('room', hex(zeroblob({}))) ON CONFLICT (name) DO NOTHING; \
         DELETE FROM meta WHERE name = 'room'; PRAGMA wal_checkpoint(RESTART);",
        ROOM / 4
    );
    if let Err(error) = pool.execute(sqlx::AssertSqlSafe(fill)).await {
        tracing::warn!(%error, "the store holds no room on its disk");
    }
}

/// Keeps the room of a store that was closed.
pub(super) fn keep(store: &Path) {
    let kept =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(holder(store)).and_then(
            |file: File| fallocate(&file, FallocateFlags::empty(), 0, ROOM).map_err(io::Error::from),
        );
    if let Err(error) = kept {
        tracing::warn!(%error, "no room was kept on the store's disk");
    }
}
