//! How do files get into and out of the computer? Onto the desktop without replacing anything; out of it from any
//! path, because the guest is its user's.

pub mod place;
pub mod read;

use std::io;

use crate::domain::error::Error;

/// A failure of the guest's file system, in terms that its user can act on. `what` names the path.
fn file_error(what: &str, error: &io::Error) -> Error {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            Error::unavailable(format!("{what}: the computer's disk is full")).code("disk_full")
        }
        Some(Errno::NOENT | Errno::NOTDIR) => Error::not_found(format!("{what}: no such file")),
        Some(Errno::ACCESS | Errno::PERM) => Error::forbidden(format!("{what}: permission denied")),
        Some(Errno::LOOP) => Error::invalid(format!("{what}: too many symbolic links")),
        Some(Errno::NAMETOOLONG) => Error::invalid(format!("{what}: the name is too long")),
        Some(Errno::ROFS) => Error::conflict(format!("{what}: the file system is read-only")),
        _ => Error::internal(format!("{what}: {error}")),
    }
}
