//! How do files get into and out of the computer? Onto the desktop without replacing anything; to and from any path as
//! the client says, because the guest is its user's.
//!
//! What is read may lie behind links. What is written, moved or removed may not (`paths`): the folder is opened once,
//! without following any, and everything else is relative to that descriptor (threats.md T7). All work on files is on
//! threads of its own, never on those that serve.

pub mod entry;
pub mod hash;
pub mod list;
pub mod merge;
pub mod mkdir;
pub mod pack;
pub mod paths;
pub mod place;
pub mod range;
pub mod read;
pub mod receive;
pub mod relocate;
pub mod remove;
pub mod resumable;
pub mod tar_entries;
pub mod unfinished;
pub mod unpack;
pub mod upload;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use hotdesk_domain::error::{Error, Result};
use resumable::Uploads;

/// Uploads, archives, hashes and removals at once. Each holds a thread and at most some 2 MiB of pieces.
const MAX_TRANSFERS: usize = 16;

/// Two paths are on different file systems.
const OTHER_FILE_SYSTEM: &str = "other_file_system";

/// What the file routes share.
#[derive(Clone)]
pub struct Files {
    transfers: Arc<Semaphore>,
    /// Uploads that can be resumed.
    pub uploads: Uploads,
}

impl Files {
    /// The files of the computer whose user's home folder this is.
    pub fn new(home: &Path) -> Self {
        Self { transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)), uploads: Uploads::new(home) }
    }

    /// How many are at work.
    pub fn under_way(&self) -> usize {
        MAX_TRANSFERS - self.transfers.available_permits()
    }

    /// A place among those at work; give it to the thread that works.
    ///
    /// # Errors
    /// `Unavailable` when all are taken.
    pub fn slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.transfers).try_acquire_owned().map_err(|_| {
            Error::unavailable("Too many file transfers at once").code("too_many_transfers").retry_after(2)
        })
    }
}

/// Runs work on files where it may block.
///
/// # Errors
/// The work's own, or `Internal` when it broke down.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("file work broke down: {error}")))?
}

/// A failure of the guest's file system, in terms that its user can act on. `what` names the path.
fn file_error(what: &str, error: &io::Error) -> Error {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            Error::unavailable(format!("{what}: the computer's disk is full")).code("disk_full")
        }
        Some(Errno::NOENT | Errno::NOTDIR) => Error::not_found(format!("{what}: no such file")),
        Some(Errno::ACCESS | Errno::PERM) => {
            Error::forbidden(format!("{what}: permission denied")).code("permission_denied")
        }
        Some(Errno::LOOP) => Error::invalid(format!("{what}: too many symbolic links")),
        Some(Errno::NAMETOOLONG) => Error::invalid(format!("{what}: the name is too long")),
        Some(Errno::INVAL) => Error::invalid(format!("{what}: the file system refuses this")),
        Some(Errno::ROFS) => Error::conflict(format!("{what}: the file system is read-only")),
        Some(Errno::BUSY | Errno::TXTBSY) => Error::conflict(format!("{what}: it is in use")),
        Some(Errno::XDEV) => {
            Error::conflict(format!("{what}: on another file system")).code(OTHER_FILE_SYSTEM)
        }
        Some(Errno::EXIST) => already_exists(what),
        Some(Errno::NOTEMPTY) => not_empty(what),
        Some(Errno::ISDIR) => is_a_folder(what),
        _ => Error::internal(format!("{what}: {error}")),
    }
}

/// The same for a bare error number.
fn errno(what: &str, error: rustix::io::Errno) -> Error {
    file_error(what, &error.into())
}

fn already_exists(what: &str) -> Error {
    Error::conflict(format!("{what}: it exists already")).code("already_exists")
}

fn not_empty(what: &str) -> Error {
    Error::conflict(format!("{what}: the folder is not empty")).code("not_empty")
}

fn is_a_folder(what: &str) -> Error {
    Error::conflict(format!("{what}: it is a folder")).code("is_a_folder")
}

fn not_a_folder(what: &str) -> Error {
    Error::invalid(format!("{what}: not a folder")).code("not_a_folder")
}
