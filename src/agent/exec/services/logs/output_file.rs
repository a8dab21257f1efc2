//! File of the output of a service.
//!
//! It is opened for each addition: who moves or removes it gets a new one, and memory of a gVisor guest cannot be saved while
//! a removed file is open (docs/engines/gvisor.md).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::append::append_to;
use super::tai64n;

/// Most bytes of a rotated file. A service has [`MAX_OLDER`] and one of them, 4 MB.
const MAX_BYTES: u64 = 1_000_000;
/// Older files that a rotation leaves.
const MAX_OLDER: usize = 3;
/// Mode of the folder of rotated files: output may hold secrets of a service.
const FOLDER_MODE: u32 = 0o700;
/// Begin of the names of older files, as s6-log(8) names them.
const OLDER: &str = "@";

/// Where output is added.
#[derive(Debug)]
pub(in crate::exec::services) struct OutputFile {
    path: PathBuf,
    /// Whether lines begin with their time, and a full file is replaced. Otherwise output is only added.
    is_rotated: bool,
    /// Whether the next byte begins a line.
    is_line_start: bool,
    /// Whether the last addition failed.
    is_failing: bool,
}

impl OutputFile {
    /// A file of the template's author.
    pub(in crate::exec::services) fn plain(path: PathBuf) -> Self {
        Self { path, is_rotated: false, is_line_start: true, is_failing: false }
    }

    /// A file in a folder of its own. Its lines begin with the local time: `2026-11-25 22:00:00.123456789  text`.
    pub(in crate::exec::services) fn rotated(path: PathBuf) -> Self {
        Self { is_rotated: true, ..Self::plain(path) }
    }

    /// Adds output. What cannot be written is dropped with a warning, so that the service goes on.
    pub(super) fn add(&mut self, output: &[u8]) {
        let added = if self.is_rotated { self.add_lines(output) } else { self.add_bytes(output) };
        if let Err(error) = &added
            && !self.is_failing
        {
            tracing::warn!(log = %self.path.display(), %error, "could not write the output of a service; it is dropped until that works");
        }
        self.is_failing = added.is_err();
    }

    fn add_bytes(&self, output: &[u8]) -> io::Result<()> {
        append_to(&self.path)?.write_all(output)
    }

    fn add_lines(&mut self, output: &[u8]) -> io::Result<()> {
        let time = format!("{}  ", jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.9f"));
        let (mut file, mut size) = self.open()?;
        let mut text = Vec::with_capacity(output.len() + time.len());
        for line in output.split_inclusive(|byte| *byte == b'\n') {
            let length = size + (text.len() + time.len() + line.len()) as u64;
            if length > MAX_BYTES && (size > 0 || !text.is_empty()) {
                file.write_all(&text)?;
                text.clear();
                self.rotate()?;
                (file, size) = self.open()?;
            }
            if self.is_line_start {
                text.extend_from_slice(time.as_bytes());
            }
            text.extend_from_slice(line);
            self.is_line_start = line.ends_with(b"\n");
        }
        file.write_all(&text)
    }

    /// Opens a rotated file, and returns its length.
    fn open(&self) -> io::Result<(File, u64)> {
        let folder = self.folder();
        fs::create_dir_all(folder.parent().unwrap_or(folder))?;
        match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = append_to(&self.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// Moves the file to the older ones, and removes the oldest of them.
    fn rotate(&self) -> io::Result<()> {
        let folder = self.folder();
        fs::rename(&self.path, folder.join(format!("{OLDER}{}.s", tai64n::label(SystemTime::now()))))?;
        let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut older = names.collect::<io::Result<Vec<_>>>()?;
        older.retain(|name| name.as_bytes().starts_with(OLDER.as_bytes()));
        older.sort();
        let surplus = older.len().saturating_sub(MAX_OLDER);
        older[..surplus].iter().try_for_each(|name| fs::remove_file(folder.join(name)))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_get_their_time_and_full_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let logs = root.join("services/web");
        let mut file = OutputFile::rotated(logs.join("current"));
        for part in ["on", "e\ntwo\nth", "ree\n"] {
            file.add(part.as_bytes());
        }
        let text = fs::read_to_string(logs.join("current")).unwrap();
        let (times, lines): (Vec<_>, Vec<_>) =
            text.lines().map(|line| line.split_once("  ").unwrap()).unzip();
        assert_eq!(lines, ["one", "two", "three"]);
        for time in times {
            let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            assert_eq!(digits, "0000-00-00 00:00:00.000000000");
        }
        assert_eq!(fs::metadata(&logs).unwrap().permissions().mode() & 0o777, FOLDER_MODE);

        // A file of s6-log, which was there before.
        fs::write(logs.join("@400000000000000000000000.u"), "old").unwrap();
        let line = format!("{}\n", "x".repeat(60_000));
        for _ in 0..100 {
            file.add(line.as_bytes());
        }
        let mut names: Vec<_> = fs::read_dir(&logs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            (names.len(), names.last().map(String::as_str)),
            (MAX_OLDER + 1, Some("current")),
            "{names:?}"
        );
        assert!(names.iter().all(|name| !name.ends_with(".u")), "{names:?}");
        for name in names {
            let length = fs::metadata(logs.join(&name)).unwrap().len();
            assert!((1..=MAX_BYTES).contains(&length), "{name} has {length} bytes");
        }
    }

    #[test]
    fn a_batch_of_many_lines_stays_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut file = OutputFile::rotated(root.join("current"));
        file.add(&vec![b'\n'; 64 * 1024]);
        assert!(fs::read_dir(&root).unwrap().count() > 1);
        for entry in fs::read_dir(&root).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() <= MAX_BYTES);
        }
    }

    #[test]
    fn a_file_of_the_author_gets_only_the_output_and_may_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.log");
        let mut file = OutputFile::plain(path.clone());
        file.add(b"one\ntw");
        file.add(b"o\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        file.add(b"dropped\n");
        assert!(file.is_failing && !path.with_file_name("elsewhere").exists());
        fs::remove_file(&path).unwrap();
        file.add(b"three\n");
        assert!(!file.is_failing);
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    }
}
