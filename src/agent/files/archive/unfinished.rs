//! Extraction of a folder that arrives in several archives, because the connection breaks or the receiver is killed.
//!
//! What has arrived waits in a staging folder, inside the target if it exists and otherwise beside it. The sender is
//! not trusted, and no link in the staging folder is followed (T8, docs/security.md).
//!
//! ```text
//! NAME/            only for its owner, and locked while it is in use
//!   checkpoint     last complete entry: a line of JSON
//!   tree/          entries
//! ```

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hotdesk_http::extract::Body;
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::files::archive::extract::extract_all;
use crate::files::archive::merge::{check, merge};
use crate::files::archive::prefix::EntriesDigest;
use crate::files::paths::{EntryHandle, Parents, enter};
use crate::files::write::receive::{BodyPieces, receive};
use crate::files::write::temp_file::stat_entry;
use crate::files::{errno, file_error, not_a_folder, remove};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::files::guest_file::UnpackResult;

const CHECKPOINT: &str = "checkpoint";
const TREE: &str = "tree";

/// What has arrived.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Path of the last complete entry, relative to the folder; empty before the first.
    pub after: String,
    /// Digest of the entries up to that one.
    pub digest: EntriesDigest,
    /// What is extracted by then; the limits of an archive hold for all archives together.
    pub unpacked: UnpackResult,
}

/// A folder that arrives.
#[derive(Debug)]
pub struct UnfinishedFolder {
    target: EntryHandle,
    /// The target, when it exists.
    existing: Option<OwnedFd>,
    /// Name of the staging folder.
    name: String,
}

/// An open and locked staging folder.
struct LockedStage {
    folder: OwnedFd,
    tree: OwnedFd,
    checkpoint: File,
}

/// Extracts the next archive of a folder, which begins with the entry after the checkpoint. At the end of the archive
/// the folder gets its path: a new one by a rename, and an existing one by a merge.
///
/// # Errors
/// Those of [`super::unpack::put`]; the staging folder stays. `Forbidden` or `Conflict` when it belongs to another user
/// or is in use.
pub async fn put(target: PathBuf, name: String, overwrite: bool, body: Body) -> Result<UnpackResult> {
    receive(body, CancellationToken::new(), move |pieces| {
        UnfinishedFolder::find(&target, name)?.extend(pieces, overwrite)
    })
    .await
}

impl UnfinishedFolder {
    /// Finds the folder of an absolute path. `name` is that of its staging folder, and different for each source and
    /// target.
    ///
    /// # Errors
    /// `Invalid` for the path (`not_a_folder`); `Conflict` (`path_through_link`); `NotFound`.
    pub fn find(target: &Path, name: String) -> Result<Self> {
        let Some(shown) = target.to_str() else {
            return Err(Error::invalid(format!("{}: the path is not UTF-8", target.display())));
        };
        let target = EntryHandle::for_new(target.parent().unwrap_or(target), shown, Parents::Required)?;
        let existing = match enter(&target.folder, &target.name) {
            Ok(folder) => Some(folder),
            Err(Errno::NOENT) => None,
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(not_a_folder(shown)),
            Err(error) => return Err(errno(shown, error)),
        };
        Ok(Self { target, existing, name })
    }

    /// What arrived in earlier attempts.
    ///
    /// # Errors
    /// `Forbidden` or `Conflict` when the staging folder belongs to another user or is in use.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        match stat_entry(self.holder(), &self.name, &self.name)? {
            None => Ok(Checkpoint::default()),
            Some(_) => self.stage()?.checkpoint(),
        }
    }

    /// Removes what has arrived.
    ///
    /// # Errors
    /// Those of [`UnfinishedFolder::checkpoint`], and when it cannot be removed.
    pub fn discard(&self) -> Result<()> {
        let _stage = self.stage()?;
        remove::tree(self.holder(), &self.name)
    }

    fn holder(&self) -> &OwnedFd {
        self.existing.as_ref().unwrap_or(&self.target.folder)
    }

    fn stage(&self) -> Result<LockedStage> {
        let path = format!("{}: {}", self.target.path, self.name);
        let fail = |error: Errno| errno(&path, error);
        let make = |holder: &OwnedFd, name: &str, mode: u32| match rustix::fs::mkdirat(
            holder,
            name,
            Mode::from_raw_mode(mode),
        ) {
            Ok(()) | Err(Errno::EXIST) => enter(holder, name).map_err(fail),
            Err(error) => Err(fail(error)),
        };
        let folder = make(self.holder(), &self.name, 0o700)?;
        if rustix::fs::fstat(&folder).map_err(fail)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Error::forbidden(format!("{path}: it belongs to another user")));
        }
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::conflict(format!("{path}: another copy is using it")));
            }
            locked => locked.map_err(fail)?,
        }
        let tree = make(&folder, TREE, 0o755)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let checkpoint = rustix::fs::openat(&folder, CHECKPOINT, flags, Mode::RUSR | Mode::WUSR);
        Ok(LockedStage { folder, tree, checkpoint: File::from(checkpoint.map_err(fail)?) })
    }

    fn extend(&self, pieces: BodyPieces, overwrite: bool) -> Result<UnpackResult> {
        let stage = self.stage()?;
        let path = self.target.path.as_str();
        let fail = |error: Errno| errno(path, error);
        let Checkpoint { unpacked, mut digest, .. } = stage.checkpoint()?;
        let mut unpacked = UnpackResult { path: path.to_owned(), ..unpacked };
        extract_all(&stage.tree, pieces, &mut unpacked, |last, header, unpacked| {
            digest.add(header, &last.path, &last.target);
            stage.record(&last.path, &digest, unpacked)
        })?;
        rustix::fs::syncfs(&stage.tree).map_err(fail)?;
        let target = (&self.target.folder, self.target.name.as_str());
        let renamed = match self.existing {
            Some(_) => Err(Errno::EXIST),
            None => {
                rustix::fs::renameat_with(&stage.folder, TREE, target.0, target.1, RenameFlags::NOREPLACE)
            }
        };
        match renamed {
            Ok(()) => rustix::fs::fsync(target.0).map_err(fail)?,
            Err(Errno::EXIST) => {
                let folder = enter(target.0, target.1).map_err(fail)?;
                check(&stage.tree, &folder, overwrite, path)?;
                merge(&stage.tree, &folder, overwrite, path)?;
                rustix::fs::fsync(&folder).map_err(fail)?;
            }
            Err(error) => return Err(fail(error)),
        }
        remove::tree(self.holder(), &self.name)?;
        Ok(unpacked)
    }
}

impl LockedStage {
    fn checkpoint(&self) -> Result<Checkpoint> {
        let mut content = Vec::new();
        (&self.checkpoint).read_to_end(&mut content).map_err(|error| file_error(CHECKPOINT, &error))?;
        // The rest of a longer line may follow. Without a whole line, everything is received again.
        let line = content.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).unwrap_or_default())
    }

    fn record(&self, last: &Path, digest: &EntriesDigest, unpacked: &UnpackResult) -> Result<()> {
        // A request can name only a path in UTF-8; the entries after an earlier one are received again.
        let Some(after) = last.to_str() else { return Ok(()) };
        let checkpoint =
            Checkpoint { after: after.to_owned(), digest: digest.clone(), unpacked: unpacked.clone() };
        let line = serde_json::to_string(&checkpoint)
            .map_err(|error| Error::internal(format!("a checkpoint cannot be written: {error}")))?;
        // One write, so that a killed process leaves the earlier line or this one.
        let written = self.checkpoint.write_all_at(format!("{line}\n").as_bytes(), 0);
        written.map_err(|error| file_error(CHECKPOINT, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Kind;
    use hotdesk_domain::error_code::ErrorCode;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tar::{Builder, EntryType, Header};

    /// An archive of entries: a path, and the target of a link or nothing for a file.
    fn archive(entries: &[(&str, Option<&str>)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (path, link) in entries {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(if link.is_some() { 0 } else { 4 });
            header.set_entry_type(if link.is_some() { EntryType::Symlink } else { EntryType::Regular });
            match link {
                Some(target) => tar.append_link(&mut header, path, target).unwrap(),
                None => tar.append_data(&mut header, path, &b"text"[..]).unwrap(),
            }
        }
        tar.into_inner().unwrap()
    }

    /// A body that breaks off before the end of its archive.
    fn broken(entries: &[(&str, Option<&str>)]) -> Body {
        let archive = archive(entries);
        let piece = archive[..archive.len() - 1024].to_vec();
        Body::from_stream(futures_util::stream::iter([Ok(piece), Err(std::io::Error::other("cut"))]))
    }

    fn name() -> String {
        ".0011.hotdesk-part".to_owned()
    }

    #[tokio::test]
    async fn t8_no_link_of_an_earlier_archive_is_followed() {
        let here = tempfile::tempdir().unwrap();
        let (target, outside) = (here.path().join("new"), here.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        let first = [("a", None), ("way", Some("../../outside"))];
        put(target.clone(), name(), false, broken(&first)).await.unwrap_err();
        let unfinished = UnfinishedFolder::find(&target, name()).unwrap();
        let checkpoint = unfinished.checkpoint().unwrap();
        assert_eq!((checkpoint.after.as_str(), checkpoint.unpacked.links), ("way", 1));
        let through = archive(&[("way/evil", None)]).into();
        let refused = put(target.clone(), name(), false, through).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::PathThroughLink));
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert!(!target.exists());
        // The limits hold for all archives together.
        let record = here.path().join(".0011.hotdesk-part/checkpoint");
        let full =
            Checkpoint { unpacked: UnpackResult { files: 200_000, ..checkpoint.unpacked }, ..checkpoint };
        std::fs::write(&record, serde_json::to_string(&full).unwrap() + "\n").unwrap();
        let refused = put(target.clone(), name(), false, archive(&[("b", None)]).into()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::TooLarge);
        unfinished.discard().unwrap();
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_folder_is_complete_after_several_archives() {
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("new");
        put(target.clone(), name(), false, broken(&[("a", None), ("link", Some("a"))])).await.unwrap_err();
        let mode = std::fs::metadata(here.path().join(name())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let done = put(target.clone(), name(), false, archive(&[("sub/b", None)]).into()).await.unwrap();
        assert_eq!((done.files, done.links, done.bytes), (2, 1, 8));
        assert_eq!(std::fs::read_to_string(target.join("sub/b")).unwrap(), "text");
        // An existing folder is merged into, and keeps its files unless they may be replaced.
        let refused = put(target.clone(), name(), false, archive(&[("a", None)]).into()).await.unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::AlreadyExists));
        put(target.clone(), name(), true, archive(&[("c", None)]).into()).await.unwrap();
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 4);
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_staging_folder_is_this_copy_s_own() {
        let here = tempfile::tempdir().unwrap();
        let (target, outside) = (here.path().join("new"), here.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, here.path().join(name())).unwrap();
        put(target.clone(), name(), true, archive(&[("a", None)]).into()).await.unwrap_err();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        std::fs::remove_file(here.path().join(name())).unwrap();
        let unfinished = UnfinishedFolder::find(&target, name()).unwrap();
        let stage = unfinished.stage().unwrap();
        let refused = put(target.clone(), name(), true, archive(&[("a", None)]).into()).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Conflict);
        drop(stage);
        // A file that was cut can be a folder by now.
        std::fs::write(here.path().join(name()).join("tree/sub"), "cut").unwrap();
        let mut tar = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        tar.append_data(&mut header, "sub", std::io::empty()).unwrap();
        put(target.clone(), name(), true, tar.into_inner().unwrap().into()).await.unwrap();
        assert!(target.join("sub").is_dir());
    }
}
