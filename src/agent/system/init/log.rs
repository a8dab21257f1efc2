//! Log file of the agent with a size limit and one older generation.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Size in bytes at which the file is rotated; with the older file the log takes at most 2 MiB of disk.
const MAX_BYTES: u64 = 1024 * 1024;

/// A log of limited size. Write errors (a full disk) lose messages and are ignored, because process 1 must
/// continue.
#[derive(Debug)]
pub struct BoundedLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl BoundedLog {
    /// Opens a file for appending; creates it and its folder when missing.
    pub fn open(path: &Path) -> Self {
        if let Some(folder) = path.parent()
            && let Err(error) = fs::create_dir_all(folder)
        {
            eprintln!("hotdesk: log folder {}: {error}", folder.display());
        }
        let mut log = Self { path: path.to_owned(), file: None, size: 0 };
        log.reopen();
        log
    }

    fn reopen(&mut self) {
        match File::options().append(true).create(true).open(&self.path) {
            Ok(file) => {
                self.size = file.metadata().map_or(0, |facts| facts.len());
                self.file = Some(file);
            }
            Err(error) => eprintln!("hotdesk: log file {}: {error}", self.path.display()),
        }
    }

    /// Appends bytes unchanged.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.size + bytes.len() as u64 > MAX_BYTES {
            self.file = None;
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            if let Err(error) = fs::rename(&self.path, older) {
                eprintln!("hotdesk: log file {}: {error}", self.path.display());
            }
            self.reopen();
        }
        if let Some(file) = &mut self.file
            && self.size + bytes.len() as u64 <= MAX_BYTES
            && file.write_all(bytes).is_ok()
        {
            self.size += bytes.len() as u64;
        }
    }

    /// Appends a line.
    pub fn line(&mut self, text: &str) {
        self.write(format!("{text}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_newest_within_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/agent.log");
        let mut log = BoundedLog::open(&path);
        for number in 0..60_000 {
            log.line(&format!("line {number:050}"));
        }
        let newest = fs::read_to_string(&path).unwrap();
        let older = fs::read_to_string(folder.path().join("sub/agent.log.1")).unwrap();
        assert!(newest.len() as u64 <= MAX_BYTES && older.len() as u64 <= MAX_BYTES);
        assert!(newest.ends_with("59999\n"));
        let first = newest.lines().next().unwrap()["line ".len()..].parse::<u32>().unwrap();
        let last = older.lines().last().unwrap()["line ".len()..].parse::<u32>().unwrap();
        assert_eq!(first, last + 1);
        let size = newest.len() as u64;
        assert_eq!(BoundedLog::open(&path).size, size, "a restart continues the file");
    }
}
