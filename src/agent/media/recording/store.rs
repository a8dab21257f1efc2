//! Files of the recordings: a video, a record and a timeline each, in a folder in the home folder.
//!
//! They are on the computer's disk, because the runtime folder is in memory and ends with a boot; not below
//! `/tmp`, to which others may write.
//!
//! The folder is opened without following links, and all other paths are relative to its descriptor (T7,
//! docs/security.md). A video without a record was never reported to a client; it is removed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::files::paths::{FOLDER, Parents, open_inside};
use crate::files::read::{OpenFile, describe_file};
use crate::files::write::temp_file::stat_entry;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::recording::Recording;

/// Path of the folder in the home folder.
pub const FOLDER_NAME: &str = ".local/state/hotdesk/recordings";
/// Largest record that is read, in bytes; ours have half a KiB.
const MAX_RECORD: u64 = 16 * 1024;

/// A file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingFile {
    /// H.264 in fragmented MP4.
    Video,
    /// One JSON object per line.
    Timeline,
}

impl RecordingFile {
    fn name(self, id: &str) -> String {
        match self {
            Self::Video => format!("{id}.mp4"),
            Self::Timeline => format!("{id}.jsonl"),
        }
    }
}

/// The folder of recordings.
#[derive(Debug)]
pub struct RecordingStore {
    folder: OwnedFd,
}

impl RecordingStore {
    /// Opens the folder.
    ///
    /// # Errors
    /// `NotFound` when the folder does not exist and `missing` does not allow its creation; `Conflict`
    /// (`path_through_link`) when a part of the path is a link; `Internal` for other failures.
    pub fn open(home: &Path, missing: Parents) -> Result<Self> {
        let base = rustix::fs::open(home, FOLDER, Mode::empty()).map_err(failed)?;
        let folder = open_inside(base, Path::new(FOLDER_NAME), missing, "the folder of recordings")?;
        // Recordings show everything that was on the screen.
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(failed)?;
        Ok(Self { folder })
    }

    /// Creates a file of a recording.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn create(&self, id: &str, part: RecordingFile) -> Result<File> {
        self.make(&part.name(id))
    }

    /// Opens a file for download; `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn content(&self, id: &str, part: RecordingFile) -> Result<Option<OpenFile>> {
        let name = part.name(id);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut content = describe_file(file, &PathBuf::from(&name), &name)?;
        let kind = match part {
            RecordingFile::Video => "video/mp4",
            RecordingFile::Timeline => "application/x-ndjson",
        };
        kind.clone_into(&mut content.media_type);
        Ok(Some(content))
    }

    /// Size of a recording's files in bytes.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn size(&self, id: &str) -> Result<u64> {
        let mut size = 0;
        for part in [RecordingFile::Video, RecordingFile::Timeline] {
            let facts = stat_entry(&self.folder, &part.name(id), "a recording")?;
            size += facts.map_or(0, |facts| u64::try_from(facts.st_size).unwrap_or(0));
        }
        Ok(size)
    }

    /// Time of the last write to a recording's video.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn written_at(&self, id: &str) -> Result<Option<UnixMillis>> {
        let facts = stat_entry(&self.folder, &RecordingFile::Video.name(id), "a recording")?;
        Ok(facts.map(|facts| {
            let nanoseconds = i64::try_from(facts.st_mtime_nsec).unwrap_or(0);
            UnixMillis::from_seconds(facts.st_mtime, nanoseconds)
        }))
    }

    /// Free bytes of the disk.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn free(&self) -> Result<u64> {
        let space = rustix::fs::fstatvfs(&self.folder).map_err(failed)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Writes a recording's record and replaces the previous one.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn write_record(&self, record: &Recording) -> Result<()> {
        let text = serde_json::to_vec(record).map_err(Error::internal)?;
        let (fresh, name) = (format!("{}.json.new", record.id), record_name(&record.id));
        self.unlink(&fresh)?;
        let mut file = self.make(&fresh)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        written.map_err(|error| Error::internal(format!("the record of a recording: {error}")))?;
        rustix::fs::renameat(&self.folder, &fresh, &self.folder, &name).map_err(failed)
    }

    /// Reads all recordings, oldest first. Removes files of recordings without a valid record.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
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

    /// Removes a recording's files; the record last, so that an interrupted removal can be repeated.
    ///
    /// # Errors
    /// `Unavailable` (`disk_full`), or `Internal` when the file system reports another failure.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.unlink(&RecordingFile::Video.name(id))?;
        self.unlink(&RecordingFile::Timeline.name(id))?;
        self.unlink(&record_name(id))
    }

    fn read(&self, id: &str) -> Result<Option<Recording>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, record_name(id), flags, Mode::empty()).map_err(failed)?;
        let mut text = Vec::new();
        let read = File::from(file).take(MAX_RECORD).read_to_end(&mut text);
        read.map_err(|error| Error::internal(format!("the record of a recording: {error}")))?;
        // A program in the computer has changed the record: then it is not valid any more.
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

/// A new random id, which is also a part of file names.
pub fn new_id() -> String {
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
    use hotdesk_domain::error_code::ErrorCode;

    fn record(id: &str, started_at: &str) -> Recording {
        serde_json::from_value(serde_json::json!({"id": id, "screen": "default", "status": "stopped",
            "started_at": started_at, "ended_at": null, "seconds": 1.0, "size_bytes": 0, "width": 2, "height": 2,
            "fps": 10, "timeline": true}))
        .unwrap()
    }

    #[test]
    fn recordings_are_read_back_and_files_without_a_record_are_removed() {
        let home = tempfile::tempdir().unwrap();
        assert!(RecordingStore::open(home.path(), Parents::Required).is_err());
        let store = RecordingStore::open(home.path(), Parents::Create).unwrap();
        store.create("000000aa", RecordingFile::Video).unwrap().write_all(b"123").unwrap();
        store.create("000000aa", RecordingFile::Timeline).unwrap().write_all(b"45").unwrap();
        store.write_record(&record("000000aa", "2026-01-02")).unwrap();
        store.write_record(&record("000000bb", "2026-01-01")).unwrap();
        store.write_record(&record("000000bb", "2026-01-01")).unwrap();
        store.create("000000cc", RecordingFile::Video).unwrap();
        let folder = home.path().join(FOLDER_NAME);
        std::fs::write(folder.join("000000dd.json"), "{").unwrap();
        std::fs::write(folder.join("notes.txt"), "mine").unwrap();
        std::fs::write(folder.join("000000ee.json"), serde_json::to_vec(&record("../x", "")).unwrap())
            .unwrap();
        let ids: Vec<String> = store.records().unwrap().into_iter().map(|record| record.id).collect();
        assert_eq!(ids, ["000000bb", "000000aa"]);
        assert_eq!(store.size("000000aa").unwrap(), 5);
        assert!(!folder.join("000000cc.mp4").exists() && !folder.join("000000dd.json").exists());
        assert!(folder.join("notes.txt").exists(), "other files are unchanged");
        assert_eq!(store.content("000000aa", RecordingFile::Video).unwrap().unwrap().media_type, "video/mp4");
        store.remove("000000aa").unwrap();
        store.remove("000000aa").unwrap();
        assert!(store.content("000000aa", RecordingFile::Video).unwrap().is_none());
        assert_eq!(store.records().unwrap().len(), 1);
    }

    #[test]
    fn a_link_in_the_folder_s_place_is_refused() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.path().join(".local/state/hotdesk")).unwrap();
        std::os::unix::fs::symlink(other.path(), home.path().join(FOLDER_NAME)).unwrap();
        assert_eq!(
            RecordingStore::open(home.path(), Parents::Create).unwrap_err().code,
            Some(ErrorCode::PathThroughLink)
        );
    }
}
