//! Storage of resumable uploads in a folder in the home folder, so that they outlive the agent and move with
//! the computer.
//!
//! ```text
//! <id>.part   the bytes; their number is the offset
//! <id>.json   length and metadata
//! ```
//! A crash leaves one of: a part without a record (never reported to a client; removed later), both
//! (resumable), a record without a part (complete).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::UploadState;
use super::header::{TargetPath, UploadTarget, parse_target};
use crate::files::paths::{EntryHandle, FOLDER, Parents, open_inside};
use crate::files::write::desktop_upload::open_desktop;
use crate::files::write::temp_file::{TempFile, check_free, rename, settle, stat_entry};
use crate::files::write::upload::parents;
use crate::files::{errno, file_error};
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Path of the folder in the home folder.
const FOLDER_NAME: &str = ".local/state/hotdesk/uploads";
/// Time after its last byte after which an upload expires.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Most uploads, including interrupted ones.
const MAX_UPLOADS: usize = 64;
/// Largest record in bytes: the metadata field and a few numbers.
const MAX_RECORD: u64 = 64 * 1024;
/// Age at which a part without a record is removed.
const ORPHAN_LIFETIME: Duration = Duration::from_secs(3600);

/// Stored record of an upload.
#[derive(Debug, Serialize, Deserialize)]
struct UploadRecord {
    length: u64,
    metadata: String,
}

/// The folder of uploads.
#[derive(Debug)]
pub struct Store {
    home: PathBuf,
    folder: OwnedFd,
}

const SHOWN: &str = "the folder of unfinished uploads";

impl Store {
    /// Opens the folder; creates it when `missing` allows that.
    ///
    /// # Errors
    /// `NotFound` when it does not exist and must not be created; those of the file system.
    pub fn open(home: &Path, missing: Parents) -> Result<Self> {
        let base = rustix::fs::open(home, FOLDER, Mode::empty()).map_err(|error| errno(SHOWN, error))?;
        let folder = open_inside(base, Path::new(FOLDER_NAME), missing, SHOWN)?;
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(|error| errno(SHOWN, error))?;
        Ok(Self { home: home.to_owned(), folder })
    }

    /// Creates an upload. Checks the destination now, as far as possible.
    ///
    /// # Errors
    /// `Conflict` (`already_exists`); `Unavailable` (`disk_full`, `too_many_uploads`); `Invalid` for bad
    /// metadata.
    pub fn create(&self, id: Uuid, length: u64, metadata: String) -> Result<UploadState> {
        let (folder, name, shown, target) = self.target(&metadata)?;
        check_free(&folder, &name, target.options.overwrite, &shown)?;
        if self.names()?.iter().filter(|name| name.ends_with(".json")).count() >= MAX_UPLOADS {
            let what = format!("{MAX_UPLOADS} uploads are unfinished");
            return Err(Error::unavailable(what).code(ErrorCode::TooManyUploads).retry_after(60));
        }
        let space = rustix::fs::fstatvfs(&self.folder).map_err(|error| errno(SHOWN, error))?;
        if space.f_bavail.saturating_mul(space.f_frsize) < length {
            return Err(errno(&shown, Errno::NOSPC));
        }
        drop(self.make(&part(id))?);
        if let Err(error) = self.write(id, &UploadRecord { length, metadata }) {
            self.remove(id)?;
            return Err(error);
        }
        self.state(id)
    }

    /// Returns the progress of an upload. A complete one without its name gets it now.
    ///
    /// # Errors
    /// `NotFound`, also (`upload_expired`) after its expiry; those of the rename.
    pub fn state(&self, id: Uuid) -> Result<UploadState> {
        let unknown = || Error::not_found("No such upload");
        let (record, written) = self.read(id)?.ok_or_else(unknown)?;
        let bytes = stat_entry(&self.folder, &part(id), SHOWN)?;
        let expires_at = bytes.as_ref().map_or_else(|| modified_at(&written), modified_at).plus(LIFETIME);
        if expires_at < clock::now() {
            self.remove(id)?;
            return Err(unknown().code(ErrorCode::UploadExpired));
        }
        let mut state = UploadState {
            offset: record.length,
            length: record.length,
            metadata: record.metadata,
            expires_at,
        };
        if let Some(bytes) = bytes {
            state.offset = u64::try_from(bytes.st_size).unwrap_or_default();
            if state.offset >= record.length
                && let Err(error) = self.finish(id, &state)
                // A concurrent request may have renamed it.
                && stat_entry(&self.folder, &part(id), SHOWN)?.is_some()
            {
                return Err(error);
            }
        }
        Ok(state)
    }

    /// Opens the bytes of an incomplete upload for appending; `None` when it is complete.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn bytes(&self, id: Uuid) -> Result<Option<File>> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, part(id), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(errno(SHOWN, error)),
        }
    }

    /// Renames a complete file to its destination.
    fn finish(&self, id: Uuid, state: &UploadState) -> Result<()> {
        let (folder, name, shown, target) = self.target(&state.metadata)?;
        let Some(file) = self.bytes(id)? else { return Ok(()) };
        settle(&file, &folder, &name, target.options, &shown)?;
        match rename(&self.folder, &part(id), &folder, &name, target.options.overwrite, &shown) {
            Err(error) if error.code == Some(ErrorCode::OtherFileSystem) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let source = rustix::fs::openat(&self.folder, part(id), flags, Mode::empty())
                    .map_err(|error| errno(SHOWN, error))?;
                let (unfinished, mut copy) = TempFile::create(&folder, &shown)?;
                std::io::copy(&mut File::from(source), &mut copy)
                    .map_err(|error| file_error(&shown, &error))?;
                unfinished.finish(&copy, &name, target.options, &shown)?;
                self.unlink(&part(id))?;
            }
            renamed => drop(renamed?),
        }
        rustix::fs::fsync(&self.folder).map_err(|error| errno(SHOWN, error))
    }

    /// Destination of an upload: folder, name, path for messages, and options.
    fn target(&self, metadata: &str) -> Result<(OwnedFd, String, String, UploadTarget)> {
        let target = parse_target(metadata)?;
        let shown = target.path.shown();
        let (folder, name) = match &target.path {
            TargetPath::Path(path) => {
                let entry_handle = EntryHandle::for_new(&self.home, path, parents(target.parents))?;
                (entry_handle.folder, entry_handle.name)
            }
            TargetPath::Desktop(name) => (open_desktop(&self.home)?, name.as_str().to_owned()),
        };
        Ok((folder, name, shown, target))
    }

    /// Removes an upload; the record first, so that an interrupted removal leaves only what the cleanup
    /// removes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, id: Uuid) -> Result<()> {
        self.unlink(&record_name(id))?;
        self.unlink(&part(id))
    }

    /// Whether an upload exists.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn contains(&self, id: Uuid) -> Result<bool> {
        Ok(stat_entry(&self.folder, &record_name(id), SHOWN)?.is_some())
    }

    /// Removes expired uploads and parts without a record.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove_expired(&self) -> Result<()> {
        for name in self.names()? {
            let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
            let Ok(id) = Uuid::parse_str(stem) else { continue };
            match (ending, self.contains(id)?) {
                ("json", _) => match self.state(id) {
                    Ok(_) => {}
                    Err(error) if error.kind == Kind::NotFound => {}
                    Err(error) => {
                        tracing::info!(%id, error = format_args!("{error:#}"), "a complete upload cannot get its name yet")
                    }
                },
                ("part" | "json.new", false) => {
                    let modified = stat_entry(&self.folder, &name, SHOWN)?.map(|facts| modified_at(&facts));
                    if modified.is_some_and(is_orphaned) {
                        self.unlink(&name)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let fail = |error: Errno| errno(SHOWN, error);
        let mut names = Vec::new();
        let mut entries = Dir::read_from(&self.folder).map_err(fail)?;
        while let Some(read) = entries.read() {
            names.push(read.map_err(fail)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn read(&self, id: Uuid) -> Result<Option<(UploadRecord, Stat)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, record_name(id), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(errno(SHOWN, error)),
        };
        let facts = rustix::fs::fstat(&file).map_err(|error| errno(SHOWN, error))?;
        let mut text = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut text).map_err(|error| file_error(SHOWN, &error))?;
        // A program in the computer has changed the record: then it is not valid any more.
        Ok(serde_json::from_slice(&text).ok().map(|record| (record, facts)))
    }

    fn write(&self, id: Uuid, record: &UploadRecord) -> Result<()> {
        let text = serde_json::to_vec(record).map_err(Error::internal)?;
        let fresh = format!("{id}.json.new");
        let mut file = self.make(&fresh)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        let written = written.map_err(|error| file_error(SHOWN, &error)).and_then(|()| {
            rename(&self.folder, &fresh, &self.folder, &record_name(id), false, SHOWN).map(drop)
        });
        if written.is_err() {
            self.unlink(&fresh)?;
        }
        written
    }

    fn make(&self, name: &str) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from).map_err(|error| errno(SHOWN, error))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(errno(SHOWN, error)),
        }
    }
}

fn part(id: Uuid) -> String {
    format!("{id}.part")
}

fn record_name(id: Uuid) -> String {
    format!("{id}.json")
}

fn modified_at(facts: &Stat) -> UnixMillis {
    UnixMillis::from_seconds(facts.st_mtime, 0)
}

/// Whether a file without a record is old enough to be removed. A time in the future counts by its distance
/// too, because the clock may have been set back.
fn is_orphaned(modified: UnixMillis) -> bool {
    let now = clock::now();
    now.since(modified).or_else(|| modified.since(now)).is_some_and(|age| age > ORPHAN_LIFETIME)
}
