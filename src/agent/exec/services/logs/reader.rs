//! Reader of the lines that are added to a file.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::open;

/// Most bytes of a log that are read at once; what is written beyond that between two looks is skipped.
const MAX_LOG_READ: u64 = 256 * 1024;

/// Longest beginning of a line that is kept until its end is written; there is one for each file.
const MAX_REST: usize = 64 * 1024;

/// A file that grows, and is replaced now and then.
#[derive(Debug)]
pub(in crate::exec::services) struct LogReader {
    path: PathBuf,
    inode: u64,
    offset: u64,
    /// Beginning of a line that is not complete.
    rest: Vec<u8>,
}

impl LogReader {
    /// Begins at the end of the file, or at the beginning of one that does not exist yet.
    pub(in crate::exec::services) fn at_end(path: PathBuf) -> Self {
        let facts = fs::symlink_metadata(&path);
        let (inode, offset) = facts.map_or((0, 0), |facts| (facts.ino(), facts.len()));
        Self { path, inode, offset, rest: Vec::new() }
    }

    /// The file.
    pub(in crate::exec::services) fn path(&self) -> &Path {
        &self.path
    }

    /// The complete lines since the last call.
    pub(in crate::exec::services) fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut file = match open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let facts = file.metadata()?;
        if facts.ino() != self.inode || facts.len() < self.offset {
            (self.inode, self.offset) = (facts.ino(), 0);
            self.rest.clear();
        }
        if facts.len() - self.offset > MAX_LOG_READ {
            self.offset = facts.len() - MAX_LOG_READ;
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = std::mem::take(&mut self.rest);
        let read = file.take(MAX_LOG_READ).read_to_end(&mut bytes)?;
        self.offset += read as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line without an end does not grow for ever.
        if bytes.len() - end <= MAX_REST {
            self.rest = bytes.split_off(end);
        }
        Ok(String::from_utf8_lossy(&bytes).lines().map(ToOwned::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_log_is_read_from_its_end_line_by_line_also_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("current");
        let add = |text: &str| {
            use std::io::Write;
            File::options()
                .append(true)
                .create(true)
                .open(&path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        add("old\n");
        let mut log = LogReader::at_end(path.clone());
        assert!(log.lines().unwrap().is_empty());
        add("one\ntw");
        assert_eq!(log.lines().unwrap(), ["one"]);
        add("o\n");
        assert_eq!(log.lines().unwrap(), ["two"]);
        fs::rename(&path, folder.path().join("older")).unwrap();
        assert!(log.lines().unwrap().is_empty());
        add("three\n");
        assert_eq!(log.lines().unwrap(), ["three"]);
        add(&"x".repeat(2 * MAX_LOG_READ as usize));
        add("\nlast\n");
        assert_eq!(log.lines().unwrap().last().map(String::as_str), Some("last"));
    }
}
