//! How is a folder made?

use std::path::Path;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use super::errno;
use super::paths::{Spot, without_slash};
use super::unfinished::look;
use super::upload::parents;
use hotdesk_domain::error::Result;
use hotdesk_wire::guest_file::{Made, Mkdir, Outcome};

/// Makes a folder.
///
/// # Errors
/// `Conflict` (`already_exists`), unless it is a folder and `parents` was given; `Invalid` for the path.
pub fn mkdir(home: &Path, wanted: &Mkdir) -> Result<Made> {
    let spot = Spot::fresh(home, without_slash(&wanted.path), parents(wanted.parents))?;
    let outcome = match rustix::fs::mkdirat(&spot.folder, &spot.name, Mode::from_raw_mode(0o755)) {
        Ok(()) => Outcome::Created,
        Err(Errno::EXIST) if wanted.parents && is_folder(&spot)? => Outcome::Exists,
        Err(error) => return Err(errno(&spot.path, error)),
    };
    rustix::fs::fsync(&spot.folder).map_err(|error| errno(&spot.path, error))?;
    Ok(Made { path: spot.path, outcome })
}

fn is_folder(spot: &Spot) -> Result<bool> {
    let facts = look(&spot.folder, &spot.name, &spot.path)?;
    Ok(facts.is_some_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory))
}
