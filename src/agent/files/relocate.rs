//! How does a file get another path? Renamed; between file systems copied beside its new place, then renamed.

use std::fs::File;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::paths::{Parents, Spot, without_slash};
use super::unfinished::{Placing, Unfinished, check_free, look, rename};
use super::upload::outcome;
use super::{OTHER_FILE_SYSTEM, errno, file_error};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::guest_file::{MoveFile, Moved};

/// Moves a file, a folder or a link.
///
/// # Errors
/// `NotFound`; `Conflict` (`already_exists`, `not_empty`, `other_file_system`, `path_through_link`).
pub fn relocate(home: &Path, wanted: &MoveFile) -> Result<Moved> {
    let from = Spot::existing(home, without_slash(&wanted.from))?;
    let to = Spot::fresh(home, without_slash(&wanted.to), Parents::Needed)?;
    let facts = look(&from.folder, &from.name, &from.path)?;
    let facts = facts.ok_or_else(|| errno(&from.path, Errno::NOENT))?;
    let renamed = rename_spot(&from, &to, wanted.overwrite);
    let replaced = match renamed {
        Err(None) if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile => {
            copy(&from, &to, wanted.overwrite, facts.st_mode & 0o777)?
        }
        Err(None) => {
            let what = format!("{}: only files can be moved to another file system", from.path);
            return Err(Error::conflict(what).code(OTHER_FILE_SYSTEM));
        }
        Err(Some(error)) => return Err(error),
        Ok(replaced) => replaced,
    };
    rustix::fs::fsync(&from.folder).map_err(|error| errno(&from.path, error))?;
    Ok(Moved { from: from.path, to: to.path, outcome: outcome(replaced) })
}

/// `Err(None)`: the two are on different file systems (also a folder of the image below an overlay).
fn rename_spot(from: &Spot, to: &Spot, overwrite: bool) -> Result<bool, Option<Error>> {
    let renamed = rename(&from.folder, &from.name, &to.folder, &to.name, overwrite, &to.path);
    renamed.map_err(|error| Some(error).filter(|error| error.code != Some(OTHER_FILE_SYSTEM)))
}

fn copy(from: &Spot, to: &Spot, overwrite: bool, mode: u32) -> Result<bool> {
    check_free(&to.folder, &to.name, overwrite, &to.path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(&from.folder, &from.name, flags, Mode::empty())
        .map_err(|error| errno(&from.path, error))?;
    let (unfinished, mut file) = Unfinished::create(&to.folder, &to.path)?;
    std::io::copy(&mut File::from(source), &mut file).map_err(|error| file_error(&to.path, &error))?;
    let replaced = unfinished.finish(&file, &to.name, Placing { overwrite, mode: Some(mode) }, &to.path)?;
    rustix::fs::unlinkat(&from.folder, &from.name, AtFlags::empty())
        .map_err(|error| errno(&from.path, error))?;
    Ok(replaced)
}
