//! Extraction of a tar archive into a folder: completely or not at all (T8, docs/security.md).
//!
//! It is first extracted to a staging folder inside the target, without following any link, and then merged
//! by renames.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use hotdesk_http::extract::Body;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::files::archive::extract::extract_all;
use crate::files::archive::merge::{check, merge};
use crate::files::paths::{EntryHandle, enter, without_slash};
use crate::files::write::receive::{BodyPieces, receive};
use crate::files::write::temp_file::temporary_name;
use crate::files::write::upload::parents;
use crate::files::{Files, errno, not_a_folder, remove};
use hotdesk_domain::error::Result;
use hotdesk_wire::files::guest_file::{UnpackQuery, UnpackResult};

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
    let mut unpacked = UnpackResult { path: path.to_owned(), ..UnpackResult::default() };
    extract_all(&stage.inside, pieces, &mut unpacked, |_, _, _| Ok(()))?;
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
