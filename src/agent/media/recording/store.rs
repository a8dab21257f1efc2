//! Where are recordings kept? Per recording a video, a record and a timeline in a folder of their own in the home folder:
//! on the computer's disk, because the runtime folder is memory and ends with a boot, and not below `/tmp`, which others
//! may write to.
//!
//! The folder is opened without following links, and everything else is relative to that descriptor (threats.md T7). A
//! video without a record is one that nobody was told of; it is removed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::files::paths::{FOLDER, Parents, open_inside};
use crate::files::read::{Content, of_file};
use crate::files::unfinished::look;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::recording::Recording;

/// The folder, in the home folder.
pub const FOLDER_NAME: &str = ".local/state/hotdesk/recordings";
/// Largest record that is read; ours have half a KiB.
const MAX_RECORD: u64 = 16 * 1024;

/// A file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// H.264 in fragmented MP4.
    Video,
    /// A JSON object a line.
    Timeline,
}

impl Part {
    fn name(self, id: &str) -> String {
        match self {
            Self::Video => format!("{id}.mp4"),
            Self::Timeline => format!("{id}.jsonl"),
        }
    }
}

/// The folder of recordings.
#[derive(Debug)]
pub struct Shelf {
    folder: OwnedFd,
}

impl Shelf {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it cannot be; `NotFound` unless it may be made.
    pub fn open(home: &Path, missing: Parents) -> Result<Self> {
        let base = rustix::fs::open(home, FOLDER, Mode::empty()).map_err(failed)?;
        let folder = open_inside(base, Path::new(FOLDER_NAME), missing, "the folder of recordings")?;
        // They show whatever was on the screen.
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(failed)?;
        Ok(Self { folder })
    }

    /// Begins a file.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn create(&self, id: &str, part: Part) -> Result<File> {
        self.make(&part.name(id))
    }

    /// Opens a file to be sent; `None` when it is not there.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn content(&self, id: &str, part: Part) -> Result<Option<Content>> {
        let name = part.name(id);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut content = of_file(file, &PathBuf::from(&name), &name)?;
        let kind = match part {
            Part::Video => "video/mp4",
            Part::Timeline => "application/x-ndjson",
        };
        kind.clone_into(&mut content.media_type);
        Ok(Some(content))
    }

    /// Bytes of a recording's files.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn size(&self, id: &str) -> Result<u64> {
        let mut size = 0;
        for part in [Part::Video, Part::Timeline] {
            let facts = look(&self.folder, &part.name(id), "a recording")?;
            size += facts.map_or(0, |facts| u64::try_from(facts.st_size).unwrap_or(0));
        }
        Ok(size)
    }

    /// When something was last written to a recording's video, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn written_ms(&self, id: &str) -> Result<Option<i64>> {
        let facts = look(&self.folder, &Part::Video.name(id), "a recording")?;
        Ok(facts.map(|facts| {
            let nanoseconds = i64::try_from(facts.st_mtime_nsec).unwrap_or(0);
            facts.st_mtime.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
        }))
    }

    /// Bytes that the disk has left.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn free(&self) -> Result<u64> {
        let room = rustix::fs::fstatvfs(&self.folder).map_err(failed)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Writes a recording's record over the one before.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn note(&self, record: &Recording) -> Result<()> {
        let text = serde_json::to_vec(record).map_err(Error::internal)?;
        let (fresh, name) = (format!("{}.json.new", record.id), record_name(&record.id));
        self.unlink(&fresh)?;
        let mut file = self.make(&fresh)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        written.map_err(|error| Error::internal(format!("the record of a recording: {error}")))?;
        rustix::fs::renameat(&self.folder, &fresh, &self.folder, &name).map_err(failed)
    }

    /// All recordings, oldest first. What has no record any more is removed.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn records(&self) -> Result<Vec<Recording>> {
        let mut records: Vec<Recording> = Vec::new();
        let names = self.names()?;
        for id in names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| is_id(id)) {
            records.extend(self.read(id)?.filter(|record| record.id == id));
        }
        for name in &names {
            let id = name.split('.').next().unwrap_or_default();
            if is_id(id) && !records.iter().any(|record| record.id == id) {
                self.unlink(name)?;
            }
        }
        records.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        Ok(records)
    }

    /// Removes a recording; the record last, so that a crash in between leaves one that can be removed again.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.unlink(&Part::Video.name(id))?;
        self.unlink(&Part::Timeline.name(id))?;
        self.unlink(&record_name(id))
    }

    fn read(&self, id: &str) -> Result<Option<Recording>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, record_name(id), flags, Mode::empty()).map_err(failed)?;
        let mut text = Vec::new();
        let read = File::from(file).take(MAX_RECORD).read_to_end(&mut text);
        read.map_err(|error| Error::internal(format!("the record of a recording: {error}")))?;
        // Somebody in the computer wrote into it: then it is no recording of ours any more.
        Ok(serde_json::from_slice(&text).ok())
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut entries = Dir::read_from(&self.folder).map_err(failed)?;
        while let Some(entry) = entries.read() {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn make(&self, name: &str) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from).map_err(failed)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

/// A fresh name, which is a file's as well.
pub fn fresh_id() -> String {
    format!("{:08x}", rand::random::<u32>())
}

fn is_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn record_name(id: &str) -> String {
    format!("{id}.json")
}

fn failed(error: Errno) -> Error {
    match error {
        Errno::NOSPC | Errno::DQUOT => super::disk_full(),
        Errno::NOENT => Error::not_found("No such recording"),
        other => Error::internal(format!("the folder of recordings: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, started_at: &str) -> Recording {
        serde_json::from_value(serde_json::json!({"id": id, "screen": "default", "status": "stopped",
            "started_at": started_at, "ended_at": null, "seconds": 1.0, "size_bytes": 0, "width": 2, "height": 2,
            "fps": 10, "timeline": true}))
        .unwrap()
    }

    #[test]
    fn recordings_survive_and_what_nobody_was_told_of_does_not() {
        let home = tempfile::tempdir().unwrap();
        assert!(Shelf::open(home.path(), Parents::Needed).is_err());
        let shelf = Shelf::open(home.path(), Parents::Made).unwrap();
        shelf.create("000000aa", Part::Video).unwrap().write_all(b"123").unwrap();
        shelf.create("000000aa", Part::Timeline).unwrap().write_all(b"45").unwrap();
        shelf.note(&record("000000aa", "2026-01-02")).unwrap();
        shelf.note(&record("000000bb", "2026-01-01")).unwrap();
        shelf.note(&record("000000bb", "2026-01-01")).unwrap();
        shelf.create("000000cc", Part::Video).unwrap();
        let folder = home.path().join(FOLDER_NAME);
        std::fs::write(folder.join("000000dd.json"), "{").unwrap();
        std::fs::write(folder.join("notes.txt"), "mine").unwrap();
        std::fs::write(folder.join("000000ee.json"), serde_json::to_vec(&record("../x", "")).unwrap())
            .unwrap();
        let ids: Vec<String> = shelf.records().unwrap().into_iter().map(|record| record.id).collect();
        assert_eq!(ids, ["000000bb", "000000aa"]);
        assert_eq!(shelf.size("000000aa").unwrap(), 5);
        assert!(!folder.join("000000cc.mp4").exists() && !folder.join("000000dd.json").exists());
        assert!(folder.join("notes.txt").exists(), "what is not a recording's is left alone");
        assert_eq!(shelf.content("000000aa", Part::Video).unwrap().unwrap().media_type, "video/mp4");
        shelf.remove("000000aa").unwrap();
        shelf.remove("000000aa").unwrap();
        assert!(shelf.content("000000aa", Part::Video).unwrap().is_none());
        assert_eq!(shelf.records().unwrap().len(), 1);
    }

    #[test]
    fn a_link_in_the_folder_s_place_is_refused() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.path().join(".local/state/hotdesk")).unwrap();
        std::os::unix::fs::symlink(other.path(), home.path().join(FOLDER_NAME)).unwrap();
        assert_eq!(Shelf::open(home.path(), Parents::Made).unwrap_err().code, Some("path_through_link"));
    }
}
