//! How is a tar unpacked into a folder? Whole or not at all: first into a folder of its own inside it, without following
//! any link, then merged by renames (threats.md T8).

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use axum::body::Body;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tar::Archive;
use tokio_util::sync::CancellationToken;

use super::merge::{check, merge};
use super::paths::{Parents, Spot, enter, open_inside, without_slash};
use super::receive::{Pieces, receive};
use super::tar_entries::{Kind, Member, next, unreadable};
use super::unfinished::temporary_name;
use super::upload::parents;
use super::{Files, errno, file_error, not_a_folder, remove};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::guest_file::{UnpackQuery, Unpacked};

/// Entries of one archive.
const MAX_ENTRIES: u64 = 200_000;
/// Bytes in the files of one archive; the disk is the bound that is met first.
const MAX_BYTES: u64 = 1 << 40;

/// Unpacks a body into a folder, which is made when it is missing.
///
/// # Errors
/// `Invalid` (`bad_archive`, `unsafe_archive`); `Conflict` (`already_exists`); `Unavailable` (`disk_full`). Nothing is
/// left then.
pub async fn put(files: &Files, home: PathBuf, query: UnpackQuery, body: Body) -> Result<Unpacked> {
    let slot = files.slot()?;
    receive(body, CancellationToken::new(), move |pieces| {
        let _slot = slot;
        let spot = Spot::fresh(&home, without_slash(&query.path), parents(query.parents))?;
        let made = match rustix::fs::mkdirat(&spot.folder, &spot.name, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(errno(&spot.path, error)),
        };
        let unpacked = into(&spot, pieces, query.overwrite);
        if unpacked.is_err() && made {
            // Somebody may have put something into it meanwhile; then it stays.
            if let Err(error) = rustix::fs::unlinkat(&spot.folder, &spot.name, AtFlags::REMOVEDIR) {
                tracing::info!(path = spot.path, %error, "a folder made for an archive stays");
            }
        }
        unpacked
    })
    .await
}

fn into(spot: &Spot, pieces: Pieces, overwrite: bool) -> Result<Unpacked> {
    let path = spot.path.as_str();
    let folder = enter(&spot.folder, &spot.name).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => not_a_folder(path),
        other => errno(path, other),
    })?;
    let stage = Stage::make(&folder, path)?;
    let unpacked = stage.fill(pieces, path)?;
    check(&stage.inside, &folder, overwrite, path)?;
    // Once for all: a sync for each of many small files would take longer than they do.
    rustix::fs::syncfs(&folder).map_err(|error| errno(path, error))?;
    merge(&stage.inside, &folder, overwrite, path)?;
    rustix::fs::fsync(&folder).map_err(|error| errno(path, error))?;
    Ok(unpacked)
}

/// A folder under a temporary name, removed with all that is in it when dropped.
struct Stage<'a> {
    holder: &'a OwnedFd,
    name: String,
    inside: OwnedFd,
}

impl<'a> Stage<'a> {
    fn make(holder: &'a OwnedFd, path: &str) -> Result<Self> {
        let name = temporary_name();
        let fail = |error| errno(path, error);
        rustix::fs::mkdirat(holder, &name, Mode::RWXU).map_err(fail)?;
        let inside = enter(holder, &name).map_err(fail)?;
        Ok(Self { holder, name, inside })
    }

    fn fill(&self, pieces: Pieces, path: &str) -> Result<Unpacked> {
        let mut archive = Archive::new(pieces);
        let mut entries = archive.entries().map_err(unreadable)?.raw(true);
        let mut unpacked = Unpacked { path: path.to_owned(), ..Unpacked::default() };
        while let Some((member, mut content)) = next(&mut entries)? {
            let shown = member.path.to_string_lossy().into_owned();
            self.one(&member, &mut content, &shown, &mut unpacked)?;
            let count = unpacked.files + unpacked.folders + unpacked.links;
            if count > MAX_ENTRIES || unpacked.bytes > MAX_BYTES {
                let what = format!("the archive holds more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes");
                return Err(Error::too_large(what));
            }
        }
        // What comes after the end marker is read too, so that a body that breaks off there is noticed.
        let mut rest = archive.into_inner();
        while rest.piece()?.is_some() {}
        Ok(unpacked)
    }

    fn one(
        &self,
        member: &Member,
        content: &mut impl Read,
        shown: &str,
        unpacked: &mut Unpacked,
    ) -> Result<()> {
        let fail = |error: Errno| errno(shown, error);
        let (Some(name), Some(parent)) = (member.path.file_name(), member.path.parent()) else {
            return Ok(());
        };
        let holder = self.inside.as_fd().try_clone_to_owned().map_err(|error| file_error(shown, &error))?;
        let folder = open_inside(holder, parent, Parents::Made, shown)?;
        match member.kind {
            Kind::Folder => {
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(fail(error)),
                }
                let made = enter(&folder, name).map_err(fail)?;
                // Its owner must be able to fill it.
                rustix::fs::fchmod(&made, Mode::from_raw_mode(member.mode | 0o700)).map_err(fail)?;
                unpacked.folders += 1;
            }
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = create(&folder, name.as_ref(), flags).map_err(fail)?;
                let size = std::io::copy(content, &mut &file).map_err(|error| copy_error(shown, error))?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(member.mode)).map_err(fail)?;
                rustix::fs::futimens(&file, &times(member.modified)).map_err(fail)?;
                unpacked.files += 1;
                unpacked.bytes += size;
            }
            Kind::Link => {
                let link = || rustix::fs::symlinkat(&member.target, &folder, name);
                match link() {
                    Err(Errno::EXIST) => {
                        replace(&folder, name.as_ref()).map_err(fail)?;
                        link().map_err(fail)?;
                    }
                    done => done.map_err(fail)?,
                }
                unpacked.links += 1;
            }
        }
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if let Err(error) = remove::tree(self.holder, &self.name) {
            tracing::warn!(name = self.name, %error, "could not remove an unfinished archive");
        }
    }
}

/// An archive may hold a path twice; the later one counts.
fn create(folder: &OwnedFd, name: &Path, flags: OFlags) -> Result<File, Errno> {
    let open = || rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR).map(File::from);
    match open() {
        Err(Errno::EXIST) => {
            replace(folder, name)?;
            open()
        }
        other => other,
    }
}

fn replace(folder: &OwnedFd, name: &Path) -> Result<(), Errno> {
    rustix::fs::unlinkat(folder, name, AtFlags::empty())
}

fn times(modified: i64) -> Timestamps {
    let at = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

/// Reading and writing fail through one call: what has an error number came from the disk.
fn copy_error(shown: &str, error: std::io::Error) -> Error {
    if error.raw_os_error().is_some() { file_error(shown, &error) } else { unreadable(error) }
}
