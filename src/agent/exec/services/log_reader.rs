//! Reader of the lines that are added to a file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Most bytes of a log that are read at once; what is written beyond that between two looks is skipped.
const MAX_LOG_READ: u64 = 256 * 1024;

/// Longest beginning of a line that is kept until its end is written; there is one for each file.
const MAX_REST: usize = 64 * 1024;

/// A file that grows, and is replaced now and then.
#[derive(Debug)]
pub(super) struct LogReader {
    path: PathBuf,
    inode: u64,
    offset: u64,
    /// Beginning of a line that is not complete.
    rest: Vec<u8>,
}

impl LogReader {
    /// Begins at the end of the file, or at the beginning of one that does not exist yet.
    pub(super) fn at_end(path: PathBuf) -> Self {
        let facts = fs::symlink_metadata(&path);
        let (inode, offset) = facts.map_or((0, 0), |facts| (facts.ino(), facts.len()));
        Self { path, inode, offset, rest: Vec::new() }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The complete lines since the last call.
    pub(super) fn lines(&mut self) -> io::Result<Vec<String>> {
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

/// Opens a file by the path that it really has. Users of the computer may write to its folder: the agent, which is root, reads nothing
/// that they put there but a file of its own name. A FIFO would not open, and a link may lead to a file that they cannot read.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // Links in `/`, such as `/bin`, are those of root.
    let mut parts = path.components();
    let top: PathBuf = parts.by_ref().take(2).collect();
    if file.metadata()?.is_file() && real == top.canonicalize()?.join(parts.as_path()) {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file, or behind a symbolic link, which is not followed"))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn links_and_fifos_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("logs")).unwrap();
        fs::write(at("logs/file"), "secret\n").unwrap();
        std::os::unix::fs::symlink(at("logs/file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("logs"), at("folder")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "folder/file", "fifo", "logs"] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert!(open(&at("logs/file")).is_ok());
    }
}
