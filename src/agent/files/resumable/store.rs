//! Where is an unfinished upload kept? Its bytes and a small record beside them in a folder of their own in the home
//! folder, so that it outlives the agent and moves with the computer.
//!
//! The bytes' length is the offset; a record without bytes is an upload that was finished. So a crash at any point
//! leaves one of: bytes without a record (nobody was told of them; swept), both (resumed), a record alone (finished).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::State;
use super::header::{Place, Wanted, wanted};
use crate::files::paths::{FOLDER, Parents, Spot, open_inside};
use crate::files::place::open_desktop;
use crate::files::unfinished::{Unfinished, check_free, look, rename, settle};
use crate::files::upload::parents;
use crate::files::{OTHER_FILE_SYSTEM, errno, file_error};
use hotdesk_base::clock::now_ms;
use hotdesk_domain::error::{Error, Kind, Result};

/// The folder, in the home folder.
const FOLDER_NAME: &str = ".local/state/hotdesk/uploads";
/// How long an upload is kept after its last byte.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Uploads at once, those that wait to be resumed included.
const MAX_UPLOADS: usize = 64;
/// Largest record: the metadata field and a few numbers.
const MAX_RECORD: u64 = 64 * 1024;
/// Bytes without a record, after a crash between the two, are removed after this long.
const ORPHAN_LIFETIME: Duration = Duration::from_secs(3600);

/// What is remembered of an upload.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    length: u64,
    metadata: String,
}

/// The folder of unfinished uploads.
#[derive(Debug)]
pub struct Store {
    home: PathBuf,
    folder: OwnedFd,
}

const SHOWN: &str = "the folder of unfinished uploads";

impl Store {
    /// Opens the folder, made when it is missing.
    ///
    /// # Errors
    /// When it cannot be; `NotFound` unless it may be made.
    pub fn open(home: &Path, missing: Parents) -> Result<Self> {
        let base = rustix::fs::open(home, FOLDER, Mode::empty()).map_err(|error| errno(SHOWN, error))?;
        let folder = open_inside(base, Path::new(FOLDER_NAME), missing, SHOWN)?;
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(|error| errno(SHOWN, error))?;
        Ok(Self { home: home.to_owned(), folder })
    }

    /// Begins an upload. What would be refused at its end is refused now, where that is known.
    ///
    /// # Errors
    /// `Conflict` (`already_exists`); `Unavailable` (`disk_full`, `too_many_uploads`); `Invalid`.
    pub fn create(&self, id: Uuid, length: u64, metadata: String) -> Result<State> {
        let (folder, name, shown, wanted) = self.target(&metadata)?;
        check_free(&folder, &name, wanted.placing.overwrite, &shown)?;
        if self.names()?.iter().filter(|name| name.ends_with(".json")).count() >= MAX_UPLOADS {
            let what = format!("{MAX_UPLOADS} uploads are unfinished");
            return Err(Error::unavailable(what).code("too_many_uploads").retry_after(60));
        }
        let room = rustix::fs::fstatvfs(&self.folder).map_err(|error| errno(SHOWN, error))?;
        if room.f_bavail.saturating_mul(room.f_frsize) < length {
            return Err(errno(&shown, Errno::NOSPC));
        }
        drop(self.make(&part(id))?);
        if let Err(error) = self.write(id, &Record { length, metadata }) {
            self.forget(id)?;
            return Err(error);
        }
        self.state(id)
    }

    /// How far an upload is. One whose bytes are all there but could not get its name tries that again.
    ///
    /// # Errors
    /// `NotFound` also when it has expired; what its last step says.
    pub fn state(&self, id: Uuid) -> Result<State> {
        let unknown = || Error::not_found("No such upload");
        let (record, written) = self.read(id)?.ok_or_else(unknown)?;
        let bytes = look(&self.folder, &part(id), SHOWN)?;
        let expires_ms = bytes.as_ref().map_or_else(|| modified_ms(&written), modified_ms) + lifetime();
        if expires_ms < now_ms() {
            self.forget(id)?;
            return Err(unknown().code("upload_expired"));
        }
        let mut state =
            State { offset: record.length, length: record.length, metadata: record.metadata, expires_ms };
        if let Some(bytes) = bytes {
            state.offset = u64::try_from(bytes.st_size).unwrap_or_default();
            if state.offset >= record.length
                && let Err(error) = self.finish(id, &state)
                // Another request may have given it its name meanwhile.
                && look(&self.folder, &part(id), SHOWN)?.is_some()
            {
                return Err(error);
            }
        }
        Ok(state)
    }

    /// The bytes of an unfinished upload, to be written on at their end; `None` when it is finished.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn bytes(&self, id: Uuid) -> Result<Option<File>> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, part(id), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(errno(SHOWN, error)),
        }
    }

    /// Gives a whole file its name.
    fn finish(&self, id: Uuid, state: &State) -> Result<()> {
        let (folder, name, shown, wanted) = self.target(&state.metadata)?;
        let Some(file) = self.bytes(id)? else { return Ok(()) };
        settle(&file, &folder, &name, wanted.placing, &shown)?;
        match rename(&self.folder, &part(id), &folder, &name, wanted.placing.overwrite, &shown) {
            Err(error) if error.code == Some(OTHER_FILE_SYSTEM) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let source = rustix::fs::openat(&self.folder, part(id), flags, Mode::empty())
                    .map_err(|error| errno(SHOWN, error))?;
                let (unfinished, mut copy) = Unfinished::create(&folder, &shown)?;
                std::io::copy(&mut File::from(source), &mut copy)
                    .map_err(|error| file_error(&shown, &error))?;
                unfinished.finish(&copy, &name, wanted.placing, &shown)?;
                self.unlink(&part(id))?;
            }
            renamed => drop(renamed?),
        }
        rustix::fs::fsync(&self.folder).map_err(|error| errno(SHOWN, error))
    }

    /// The folder and the name that an upload is for; how to show them.
    fn target(&self, metadata: &str) -> Result<(OwnedFd, String, String, Wanted)> {
        let wanted = wanted(metadata)?;
        let shown = wanted.place.shown();
        let (folder, name) = match &wanted.place {
            Place::Path(path) => {
                let spot = Spot::fresh(&self.home, path, parents(wanted.parents))?;
                (spot.folder, spot.name)
            }
            Place::Desktop(name) => (open_desktop(&self.home)?, name.as_str().to_owned()),
        };
        Ok((folder, name, shown, wanted))
    }

    /// Removes an upload; the record first, so that a crash in between leaves only what is swept.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn forget(&self, id: Uuid) -> Result<()> {
        self.unlink(&record_name(id))?;
        self.unlink(&part(id))
    }

    /// Whether an upload is known.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn knows(&self, id: Uuid) -> Result<bool> {
        Ok(look(&self.folder, &record_name(id), SHOWN)?.is_some())
    }

    /// Removes what has expired, and what a crash left.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn sweep(&self) -> Result<()> {
        for name in self.names()? {
            let (stem, ending) = name.split_once('.').unwrap_or((&name, ""));
            let Ok(id) = Uuid::parse_str(stem) else { continue };
            match (ending, self.knows(id)?) {
                ("json", _) => match self.state(id) {
                    Ok(_) => {}
                    Err(error) if error.kind == Kind::NotFound => {}
                    Err(error) => tracing::info!(%id, %error, "an upload waits"),
                },
                ("part" | "json.new", false) => {
                    let age = look(&self.folder, &name, SHOWN)?.map(|facts| now_ms() - modified_ms(&facts));
                    if age.is_some_and(|age| u128::from(age.unsigned_abs()) > ORPHAN_LIFETIME.as_millis()) {
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

    fn read(&self, id: Uuid) -> Result<Option<(Record, Stat)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, record_name(id), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(errno(SHOWN, error)),
        };
        let facts = rustix::fs::fstat(&file).map_err(|error| errno(SHOWN, error))?;
        let mut text = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut text).map_err(|error| file_error(SHOWN, &error))?;
        // Somebody in the computer wrote into it: then it is no upload of ours any more.
        Ok(serde_json::from_slice(&text).ok().map(|record| (record, facts)))
    }

    fn write(&self, id: Uuid, record: &Record) -> Result<()> {
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

fn lifetime() -> i64 {
    i64::try_from(LIFETIME.as_millis()).unwrap_or(i64::MAX)
}

fn modified_ms(facts: &Stat) -> i64 {
    facts.st_mtime.saturating_mul(1000)
}
