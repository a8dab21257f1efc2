//! Extraction of a tar archive into a folder: completely or not at all (T8, docs/security.md).
//!
//! It is first extracted to a staging folder inside the target, without following any link, and then merged
//! by renames.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use hotdesk_http::extract::Body;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tar::Archive;
use tokio_util::sync::CancellationToken;

use crate::files::archive::merge::{check, merge};
use crate::files::archive::tar_entries::{Member, MemberKind, next, unreadable};
use crate::files::paths::{EntryHandle, Parents, enter, open_inside, without_slash};
use crate::files::write::receive::{BodyPieces, receive};
use crate::files::write::temp_file::temporary_name;
use crate::files::write::upload::parents;
use crate::files::{Files, errno, file_error, not_a_folder, remove};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::files::guest_file::{UnpackQuery, UnpackResult};

/// Most entries of one archive.
const MAX_ENTRIES: u64 = 200_000;
/// Most bytes in the files of one archive; usually the disk is full first.
const MAX_BYTES: u64 = 1 << 40;

/// Extracts a body into a folder, which is created when missing.
///
/// # Errors
/// `Invalid` (`bad_archive`, `unsafe_archive`); `Conflict` (`already_exists`); `TooLarge`; `Unavailable`
/// (`disk_full`, `too_many_transfers`). Nothing is changed then.
pub async fn put(files: &Files, home: PathBuf, query: UnpackQuery, body: Body) -> Result<UnpackResult> {
    let slot = files.slot()?;
    receive(body, CancellationToken::new(), move |pieces| {
        let _slot = slot;
        let entry_handle = EntryHandle::for_new(&home, without_slash(&query.path), parents(query.parents))?;
        let made = match rustix::fs::mkdirat(&entry_handle.folder, &entry_handle.name, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(errno(&entry_handle.path, error)),
        };
        let unpacked = extract_into(&entry_handle, pieces, query.overwrite);
        if unpacked.is_err() && made {
            // It may contain other files by now; then it stays.
            if let Err(error) = rustix::fs::unlinkat(&entry_handle.folder, &entry_handle.name, AtFlags::REMOVEDIR) {
                tracing::info!(path = entry_handle.path, %error, "cannot remove the folder that was created for a failed extraction");
            }
        }
        unpacked
    })
    .await
}

fn extract_into(entry_handle: &EntryHandle, pieces: BodyPieces, overwrite: bool) -> Result<UnpackResult> {
    let path = entry_handle.path.as_str();
    let folder = enter(&entry_handle.folder, &entry_handle.name).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => not_a_folder(path),
        other => errno(path, other),
    })?;
    let stage = StagingFolder::create(&folder, path)?;
    let unpacked = stage.fill(pieces, path)?;
    check(&stage.inside, &folder, overwrite, path)?;
    // One sync for all files: a sync for each of many small files would take longer than writing them.
    rustix::fs::syncfs(&folder).map_err(|error| errno(path, error))?;
    merge(&stage.inside, &folder, overwrite, path)?;
    rustix::fs::fsync(&folder).map_err(|error| errno(path, error))?;
    Ok(unpacked)
}

/// Staging folder with a temporary name, removed with its content when dropped.
struct StagingFolder<'a> {
    holder: &'a OwnedFd,
    name: String,
    inside: OwnedFd,
}

impl<'a> StagingFolder<'a> {
    fn create(holder: &'a OwnedFd, path: &str) -> Result<Self> {
        let name = temporary_name();
        let fail = |error| errno(path, error);
        rustix::fs::mkdirat(holder, &name, Mode::RWXU).map_err(fail)?;
        let inside = enter(holder, &name).map_err(fail)?;
        Ok(Self { holder, name, inside })
    }

    fn fill(&self, pieces: BodyPieces, path: &str) -> Result<UnpackResult> {
        let mut archive = Archive::new(pieces);
        let mut entries = archive.entries().map_err(unreadable)?.raw(true);
        let mut unpacked = UnpackResult { path: path.to_owned(), ..UnpackResult::default() };
        while let Some((member, mut content)) = next(&mut entries)? {
            let shown = member.path.to_string_lossy().into_owned();
            self.extract(&member, &mut content, &shown, &mut unpacked)?;
            let count = unpacked.files + unpacked.folders + unpacked.links;
            if count > MAX_ENTRIES || unpacked.bytes > MAX_BYTES {
                let what =
                    format!("the archive contains more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes");
                return Err(Error::too_large(what));
            }
        }
        // Data after the end marker is read too, so that a truncated body is detected.
        let mut rest = archive.into_inner();
        while rest.piece()?.is_some() {}
        Ok(unpacked)
    }

    fn extract(
        &self,
        member: &Member,
        content: &mut impl Read,
        shown: &str,
        unpacked: &mut UnpackResult,
    ) -> Result<()> {
        let fail = |error: Errno| errno(shown, error);
        let (Some(name), Some(parent)) = (member.path.file_name(), member.path.parent()) else {
            return Ok(());
        };
        let holder = self.inside.as_fd().try_clone_to_owned().map_err(|error| file_error(shown, &error))?;
        let folder = open_inside(holder, parent, Parents::Create, shown)?;
        match member.kind {
            MemberKind::Folder => {
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(fail(error)),
                }
                let made = enter(&folder, name).map_err(fail)?;
                // The owner must be able to write to it.
                rustix::fs::fchmod(&made, Mode::from_raw_mode(member.mode | 0o700)).map_err(fail)?;
                unpacked.folders += 1;
            }
            MemberKind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = create_file(&folder, name.as_ref(), flags).map_err(fail)?;
                let size = std::io::copy(content, &mut &file).map_err(|error| copy_error(shown, error))?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(member.mode)).map_err(fail)?;
                rustix::fs::futimens(&file, &times(member.modified)).map_err(fail)?;
                unpacked.files += 1;
                unpacked.bytes += size;
            }
            MemberKind::Link => {
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

impl Drop for StagingFolder<'_> {
    fn drop(&mut self) {
        if let Err(error) = remove::tree(self.holder, &self.name) {
            tracing::warn!(
                name = self.name,
                error = format_args!("{error:#}"),
                "cannot remove the staging folder of an archive"
            );
        }
    }
}

/// An archive may contain a path twice; the later entry replaces the earlier one.
fn create_file(folder: &OwnedFd, name: &Path, flags: OFlags) -> Result<File, Errno> {
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

/// `io::copy` fails for the archive and for the disk; an error with an errno comes from the disk.
fn copy_error(shown: &str, error: std::io::Error) -> Error {
    if error.raw_os_error().is_some() { file_error(shown, &error) } else { unreadable(error) }
}
