//! Reader of the lines that are added to a file, also across its rotation.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::open;

/// Most bytes that are read at once by a reader that may leave lines out.
const MAX_LOG_READ: u64 = 256 * 1024;

/// The same for one that may not, and asks again at once. Lines of one byte take 25 bytes of memory each.
const PIECE: u64 = 32 * 1024;

/// Most reads of one call. A line without an end is complete after fewer of them ([`MAX_REST`]).
const MAX_READS: usize = 4;

/// Longest beginning of a line that is kept until its end is written; there is one for each file.
const MAX_REST: usize = 64 * 1024;

/// A file that grows, and is replaced now and then.
#[derive(Debug)]
pub(in crate::exec::services) struct LogReader {
    path: PathBuf,
    /// The file as it was opened last, so that its last lines can be read when it has lost its name.
    file: Option<File>,
    offset: u64,
    /// Whether the offset is inside of a line whose beginning was not read.
    is_inside_line: bool,
    /// Beginning of a line that is not complete.
    rest: Vec<u8>,
    /// Most bytes of one read.
    piece: u64,
    /// Whether what is added beyond that between two calls is left out.
    skips: bool,
    /// Whether there was a file, and none now.
    is_gone: bool,
}

impl LogReader {
    /// Begins at the end of the file, or at the beginning of one that does not exist yet. Of more than [`MAX_LOG_READ`] between
    /// two calls, only the last lines are read.
    pub(in crate::exec::services) fn at_end(path: PathBuf) -> Self {
        Self { piece: MAX_LOG_READ, skips: true, ..Self::before_end(path, 0) }
    }

    /// Begins with the lines of the last `bytes`, and leaves none out.
    pub(in crate::exec::services) fn before_end(path: PathBuf, bytes: u64) -> Self {
        // The first read opens it again, and returns the error.
        let file = open(&path).ok();
        let length = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |facts| facts.len());
        let start = length.saturating_sub(bytes);
        Self {
            path,
            file,
            // From the byte before: when it ends a line, the next one is whole.
            offset: start.saturating_sub(1),
            is_inside_line: start > 0,
            rest: Vec::new(),
            piece: PIECE,
            skips: false,
            is_gone: false,
        }
    }

    /// The file.
    pub(in crate::exec::services) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file was removed and not made again, as of the last read.
    pub(in crate::exec::services) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The next complete lines, not all at once; none when there are no more for now. The last lines of a file that was replaced
    /// come before those of the new one.
    pub(in crate::exec::services) fn lines(&mut self) -> io::Result<Vec<String>> {
        let newest = match open(&self.path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.is_gone = newest.is_none() && (self.is_gone || self.file.is_some());
        let mut replacement = None;
        match newest {
            // It is opened again each time: in an overlay, an open file does not see what is written after its first change.
            Some(newest) if self.is_current(&newest)? => self.file = Some(newest),
            newest => replacement = newest,
        }
        for _ in 0..MAX_READS {
            match self.read()? {
                Some(lines) if lines.is_empty() => {}
                Some(lines) => return Ok(lines),
                None => return self.go_on(replacement),
            }
        }
        Ok(Vec::new())
    }

    /// Goes on with the file that replaced the one whose end was reached, if any. Returns the unfinished last line of that one.
    fn go_on(&mut self, replacement: Option<File>) -> io::Result<Vec<String>> {
        if let Some(file) = replacement {
            let last = std::mem::take(&mut self.rest);
            (self.file, self.offset, self.is_inside_line) = (Some(file), 0, false);
            return Ok([text_lines(&last), self.read()?.unwrap_or_default()].concat());
        }
        if let Some(file) = &self.file
            && file.metadata()?.nlink() == 0
        {
            // Without this, the disk space of a removed file stays in use.
            (self.file, self.offset, self.is_inside_line) = (None, 0, false);
            return Ok(text_lines(&std::mem::take(&mut self.rest)));
        }
        Ok(Vec::new())
    }

    /// Whether a file is the one that is read; also when none is.
    fn is_current(&self, file: &File) -> io::Result<bool> {
        let Some(current) = &self.file else { return Ok(true) };
        let (current, file) = (current.metadata()?, file.metadata()?);
        Ok((current.dev(), current.ino()) == (file.dev(), file.ino()))
    }

    /// Reads the next piece of the open file, and returns the lines that end in it; `None` at the end of the file.
    fn read(&mut self) -> io::Result<Option<Vec<String>>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let length = file.metadata()?.len();
        if length < self.offset {
            // It was emptied.
            (self.offset, self.is_inside_line) = (0, false);
            self.rest.clear();
        }
        if self.skips && length - self.offset > self.piece {
            (self.offset, self.is_inside_line) = (length - self.piece, true);
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = std::mem::take(&mut self.rest);
        let read = file.take(self.piece).read_to_end(&mut bytes)?;
        if read == 0 {
            self.rest = bytes;
            return Ok(None);
        }
        self.offset += read as u64;
        if self.is_inside_line {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.is_inside_line = end.is_none();
            bytes.drain(..end.map_or(bytes.len(), |at| at + 1));
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line without an end does not grow for ever.
        if bytes.len() - end <= MAX_REST {
            self.rest = bytes.split_off(end);
        }
        Ok(Some(text_lines(&bytes)))
    }
}

fn text_lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn add(path: &Path, text: &str) {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_log_is_read_from_its_end_line_by_line_also_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("current");
        add(&path, "old\n");
        let mut log = LogReader::at_end(path.clone());
        assert!(log.lines().unwrap().is_empty());
        add(&path, "one\ntw");
        assert_eq!(log.lines().unwrap(), ["one"]);
        add(&path, "o\n");
        assert_eq!(log.lines().unwrap(), ["two"]);
        let older = path.with_file_name("older");
        fs::rename(&path, &older).unwrap();
        assert!(log.lines().unwrap().is_empty() && log.is_gone());
        add(&path, "three\n");
        assert_eq!(log.lines().unwrap(), ["three"]);
        assert!(!log.is_gone());

        // What is written between a look and the rotation is not lost, nor is a last line without an end.
        add(&path, "four\nfi");
        fs::rename(&path, &older).unwrap();
        add(&path, "six\n");
        assert_eq!(log.lines().unwrap(), ["four"]);
        assert_eq!(log.lines().unwrap(), ["fi", "six"]);
        // Nor is that of a file that is removed.
        add(&path, "seven\nei");
        fs::remove_file(&path).unwrap();
        assert_eq!(log.lines().unwrap(), ["seven"]);
        assert_eq!(log.lines().unwrap(), ["ei"]);
        assert!(log.lines().unwrap().is_empty() && log.is_gone());
        add(&path, "nine\n");
        assert_eq!(log.lines().unwrap(), ["nine"]);
        // A file that is emptied is read from its beginning.
        File::create(&path).unwrap();
        assert!(log.lines().unwrap().is_empty());
        add(&path, "a\n");
        assert_eq!(log.lines().unwrap(), ["a"]);

        add(&path, &"x".repeat(2 * MAX_LOG_READ as usize));
        add(&path, "\nlast\n");
        assert_eq!(log.lines().unwrap(), ["last"]);
    }

    #[test]
    fn a_reader_begins_with_whole_lines_and_leaves_none_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("current");
        add(&path, "one\ntwo\nthree\n");
        for (bytes, expected) in [
            (0, &[][..]),
            (5, &[]),
            (6, &["three"]),
            (7, &["three"]),
            (10, &["two", "three"]),
            (14, &["one", "two", "three"]),
            (99, &["one", "two", "three"]),
        ] {
            let lines = LogReader::before_end(path.clone(), bytes).lines().unwrap();
            assert_eq!(lines, expected, "{bytes}");
        }
        let mut log = LogReader::before_end(path.clone(), 0);
        let line = "y".repeat(1023);
        let count = 3 * MAX_LOG_READ as usize / 1024;
        add(&path, &format!("{line}\n").repeat(count));
        // A line that exceeds a piece is neither cut nor the end of the file, also before a rotation.
        let long = "z".repeat(PIECE as usize + 1);
        add(&path, &format!("{long}\n"));
        fs::rename(&path, path.with_file_name("older")).unwrap();
        add(&path, "new\n");
        let (mut seen, mut last) = (0, Vec::new());
        loop {
            let lines = log.lines().unwrap();
            if lines.is_empty() {
                break;
            }
            seen += lines.iter().filter(|found| **found == line).count();
            last.extend(lines.into_iter().filter(|found| *found != line));
        }
        assert_eq!((seen, last), (count, vec![long, "new".to_owned()]));
        // A file that is made later is read from its beginning.
        let later = path.with_file_name("later");
        let mut log = LogReader::before_end(later.clone(), 0);
        assert!(log.lines().unwrap().is_empty() && !log.is_gone());
        add(&later, "first\n");
        assert_eq!(log.lines().unwrap(), ["first"]);
    }
}
