//! File transfer and file operations in the computer: uploads to the desktop, and access to any path, because
//! the guest belongs to its user.
//!
//! Reads follow links. Writes, moves and removals do not (`paths`): the folder is opened once without
//! following any link, and all other paths are relative to its descriptor (T7, docs/security.md). All file
//! operations run on blocking threads.

pub mod archive;
pub mod entry;
pub mod hash;
pub mod list;
pub mod mkdir;
pub mod paths;
pub mod range;
pub mod read;
pub mod relocate;
pub mod remove;
pub mod resumable;
pub mod write;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use hotdesk_base::tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use resumable::Uploads;

/// Most concurrent uploads, archives, hashes and removals. Each holds a thread and at most some 2 MiB of
/// data.
const MAX_TRANSFERS: usize = 16;

/// Shared state of the file routes.
#[derive(Clone)]
pub struct Files {
    transfers: Arc<Semaphore>,
    /// Resumable uploads.
    pub uploads: Uploads,
}

impl Files {
    /// `home` is the home folder of the computer's user.
    pub fn new(home: &Path) -> Self {
        Self { transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)), uploads: Uploads::new(home) }
    }

    /// Number of transfers that run now.
    pub fn active_transfers(&self) -> usize {
        MAX_TRANSFERS - self.transfers.available_permits()
    }

    /// Reserves a transfer; pass the permit to the blocking thread.
    ///
    /// # Errors
    /// `Unavailable` (`too_many_transfers`) at [`MAX_TRANSFERS`].
    pub fn slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.transfers).try_acquire_owned().map_err(|_| {
            Error::unavailable("Too many file transfers at once")
                .code(ErrorCode::TooManyTransfers)
                .retry_after(2)
        })
    }
}

/// Runs a file operation on a blocking thread.
///
/// # Errors
/// Those of `work`; `Internal` when it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tasks::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("a file operation panicked: {error}")))?
}

/// Converts a failure of the guest's file system to an error for its user. `what` names the path.
fn file_error(what: &str, error: &io::Error) -> Error {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            Error::unavailable(format!("{what}: the computer's disk is full")).code(ErrorCode::DiskFull)
        }
        Some(Errno::NOENT | Errno::NOTDIR) => Error::not_found(format!("{what}: no such file")),
        Some(Errno::ACCESS | Errno::PERM) => {
            Error::forbidden(format!("{what}: permission denied")).code(ErrorCode::PermissionDenied)
        }
        Some(Errno::LOOP) => Error::invalid(format!("{what}: too many symbolic links")),
        Some(Errno::NAMETOOLONG) => Error::invalid(format!("{what}: the name is too long")),
        Some(Errno::INVAL) => Error::invalid(format!("{what}: the file system refuses this")),
        Some(Errno::ROFS) => Error::conflict(format!("{what}: the file system is read-only")),
        Some(Errno::BUSY | Errno::TXTBSY) => Error::conflict(format!("{what}: it is in use")),
        Some(Errno::XDEV) => {
            Error::conflict(format!("{what}: on another file system")).code(ErrorCode::OtherFileSystem)
        }
        Some(Errno::EXIST) => already_exists(what),
        Some(Errno::NOTEMPTY) => not_empty(what),
        Some(Errno::ISDIR) => is_a_folder(what),
        _ => Error::internal(format!("{what}: {error}")),
    }
}

/// The same for an errno.
fn errno(what: &str, error: rustix::io::Errno) -> Error {
    file_error(what, &error.into())
}

fn already_exists(what: &str) -> Error {
    Error::conflict(format!("{what}: it exists already")).code(ErrorCode::AlreadyExists)
}

fn not_empty(what: &str) -> Error {
    Error::conflict(format!("{what}: the folder is not empty")).code(ErrorCode::NotEmpty)
}

fn is_a_folder(what: &str) -> Error {
    Error::conflict(format!("{what}: it is a folder")).code(ErrorCode::IsAFolder)
}

fn not_a_folder(what: &str) -> Error {
    Error::invalid(format!("{what}: not a folder")).code(ErrorCode::NotAFolder)
}
