//! Extraction of the entries of a tar archive, without following any link (T8, docs/security.md).

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use tar::{Archive, Header};

use crate::files::archive::tar_entries::{Member, MemberKind, next, unreadable};
use crate::files::paths::{Parents, enter, open_inside};
use crate::files::write::receive::BodyPieces;
use crate::files::write::temp_file::times;
use crate::files::{errno, file_error};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::files::guest_file::UnpackResult;

/// Most entries of one archive.
const MAX_ENTRIES: u64 = 200_000;
/// Most bytes in the files of one archive; usually the disk is full first.
const MAX_BYTES: u64 = 1 << 40;

/// Extracts an archive into a folder and adds it to `unpacked`, which the limits count. `record` is called after each
/// entry with its header and what is unpacked by then.
///
/// # Errors
/// `Invalid` (`bad_archive`, `unsafe_archive`) or when the body ends early; `TooLarge`; `Unavailable` (`disk_full`);
/// those of `record`. Earlier entries stay.
pub fn extract_all(
    inside: &OwnedFd,
    pieces: BodyPieces,
    unpacked: &mut UnpackResult,
    mut record: impl FnMut(&Member, &Header, &UnpackResult) -> Result<()>,
) -> Result<()> {
    let mut archive = Archive::new(pieces);
    let mut entries = archive.entries().map_err(unreadable)?.raw(true);
    while let Some((member, mut content)) = next(&mut entries)? {
        let shown = member.path.to_string_lossy().into_owned();
        extract(inside, &member, &mut content, &shown, unpacked)?;
        let count = unpacked.files + unpacked.folders + unpacked.links;
        if count > MAX_ENTRIES || unpacked.bytes > MAX_BYTES {
            let what = format!("the archive contains more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes");
            return Err(Error::too_large(what));
        }
        record(&member, content.header(), unpacked)?;
    }
    // Data after the end marker is read too, so that a truncated body is detected.
    let mut rest = archive.into_inner();
    while rest.piece()?.is_some() {}
    Ok(())
}

fn extract(
    inside: &OwnedFd,
    member: &Member,
    content: &mut impl Read,
    shown: &str,
    unpacked: &mut UnpackResult,
) -> Result<()> {
    let fail = |error: Errno| errno(shown, error);
    let (Some(name), Some(parent)) = (member.path.file_name(), member.path.parent()) else {
        return Ok(());
    };
    let holder = inside.as_fd().try_clone_to_owned().map_err(|error| file_error(shown, &error))?;
    let folder = open_inside(holder, parent, Parents::Create, shown)?;
    match member.kind {
        MemberKind::Folder => {
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(fail(error)),
            }
            let made = match enter(&folder, name) {
                // An earlier archive ended in this file.
                Err(Errno::NOTDIR) => {
                    replace(&folder, name.as_ref()).map_err(fail)?;
                    rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)).map_err(fail)?;
                    enter(&folder, name)
                }
                entered => entered,
            };
            let made = made.map_err(fail)?;
            // The owner must be able to write to it.
            rustix::fs::fchmod(&made, Mode::from_raw_mode(member.mode | 0o700)).map_err(fail)?;
            unpacked.folders += 1;
        }
        MemberKind::File => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
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

/// `io::copy` fails for the archive and for the disk; an error with an errno comes from the disk.
fn copy_error(shown: &str, error: std::io::Error) -> Error {
    if error.raw_os_error().is_some() { file_error(shown, &error) } else { unreadable(error) }
}
