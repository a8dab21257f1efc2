//! Search of secrets in files on the disk, in command lines and environments of processes, and in texts.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::host::names_in;

/// Minimum length of a secret: a shorter one could occur by chance.
const MIN_LENGTH: usize = 8;

/// All secrets that somebody got, with a description each.
#[derive(Default)]
pub struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    /// Records a secret and returns it.
    pub fn record(&mut self, what: &'static str, text: &str) -> String {
        assert!(text.len() >= MIN_LENGTH, "{what} is too short for the search");
        self.0.push((what, text.to_owned()));
        text.to_owned()
    }

    /// All descriptions and texts.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(what, text)| (*what, text.as_str()))
    }

    /// The descriptions of the secrets in a text.
    pub fn find_in_text(&self, text: &str) -> Vec<&'static str> {
        self.all().filter(|(_, secret)| text.contains(secret)).map(|(what, _)| what).collect()
    }

    /// The files below a folder that contain a secret, with its description. `grep` skips the holes of disk
    /// images.
    pub fn find_in_files(&self, folder: &Path) -> Vec<(PathBuf, &'static str)> {
        let mut patterns = tempfile::NamedTempFile::new().expect("a file");
        for (_, secret) in self.all() {
            writeln!(patterns, "{secret}").expect("written");
        }
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--text", "--null-data", "--only-matching", "--with-filename", "--null"]);
        grep.args(["--fixed-strings", "--devices=skip", "--file"]).arg(patterns.path()).arg("--").arg(folder);
        let ran = grep.env("LC_ALL", "C").output().expect("grep is installed");
        let errors = String::from_utf8_lossy(&ran.stderr);
        // A running controller may remove files during the search.
        let gone = |line: &str| line.contains("No such file");
        assert!(errors.lines().all(gone), "{errors}");
        let output = String::from_utf8_lossy(&ran.stdout).into_owned();
        let parts: Vec<&str> = output.split_terminator('\0').collect();
        let found = parts.chunks_exact(2).flat_map(|pair| {
            let names = self.all().filter(|(_, secret)| *secret == pair[1]).map(|(what, _)| what);
            names.map(|what| (PathBuf::from(pair[0]), what)).collect::<Vec<_>>()
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        found.dedup();
        found
    }

    /// The secrets in command lines and environments of this host's processes, and the number of processes.
    pub fn find_in_processes(&self) -> (Vec<String>, usize) {
        let pids: Vec<u32> =
            names_in(Path::new("/proc")).iter().filter_map(|name| name.parse().ok()).collect();
        let mut shown = Vec::new();
        for pid in &pids {
            for part in ["cmdline", "environ"] {
                // A process may have ended, and root alone can read those of other users: both count as
                // empty.
                let bytes = fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
                let found = self.find_in_text(&String::from_utf8_lossy(&bytes));
                shown.extend(found.into_iter().map(|what| format!("{part} of {pid}: {what}")));
            }
        }
        (shown, pids.len())
    }
}

/// Whether only its owner can read a file: by its own mode, or by that of a folder above it up to `root`.
pub fn is_private(file: &Path, root: &Path) -> bool {
    let mut paths = file.ancestors().take_while(|path| path.starts_with(root));
    paths.any(|path| fs::symlink_metadata(path).is_ok_and(|about| about.mode() & 0o077 == 0))
}
