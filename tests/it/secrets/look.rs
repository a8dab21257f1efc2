//! Where is a secret found? In files as they lie on the disk, in what processes show of themselves, in texts.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::host::names_in;

/// Characters of a secret at least: fewer could be somewhere by chance.
const LEAST: usize = 8;

/// Every secret that was told to somebody, by what it is.
#[derive(Default)]
pub struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    /// Remembers one; it is given back, to be used.
    pub fn keep(&mut self, what: &'static str, text: &str) -> String {
        assert!(text.len() >= LEAST, "{what} is too short to be looked for");
        self.0.push((what, text.to_owned()));
        text.to_owned()
    }

    /// What each is, with its text.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(what, text)| (*what, text.as_str()))
    }

    /// What a text shows.
    pub fn shown_in(&self, text: &str) -> Vec<&'static str> {
        self.all().filter(|(_, secret)| text.contains(secret)).map(|(what, _)| what).collect()
    }

    /// The files below a folder that hold any, each with what it holds; `grep` passes over the holes of disk images.
    pub fn kept_below(&self, folder: &Path) -> Vec<(PathBuf, &'static str)> {
        let mut patterns = tempfile::NamedTempFile::new().expect("a file");
        for (_, secret) in self.all() {
            writeln!(patterns, "{secret}").expect("written");
        }
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--text", "--null-data", "--only-matching", "--with-filename", "--null"]);
        grep.args(["--fixed-strings", "--devices=skip", "--file"]).arg(patterns.path()).arg("--").arg(folder);
        let ran = grep.env("LC_ALL", "C").output().expect("grep is installed");
        let complained = String::from_utf8_lossy(&ran.stderr);
        // What a running controller removes meanwhile holds nothing.
        let gone = |line: &str| line.contains("No such file");
        assert!(complained.lines().all(gone), "{complained}");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let parts: Vec<&str> = said.split_terminator('\0').collect();
        let found = parts.chunks_exact(2).flat_map(|pair| {
            let names = self.all().filter(|(_, secret)| *secret == pair[1]).map(|(what, _)| what);
            names.map(|what| (PathBuf::from(pair[0]), what)).collect::<Vec<_>>()
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        found.dedup();
        found
    }

    /// What command lines and environments of this host's processes show, and how many processes were looked at.
    pub fn shown_by_processes(&self) -> (Vec<String>, usize) {
        let pids: Vec<u32> =
            names_in(Path::new("/proc")).iter().filter_map(|name| name.parse().ok()).collect();
        let mut shown = Vec::new();
        for pid in &pids {
            for part in ["cmdline", "environ"] {
                // One that has ended meanwhile shows nothing, nor does another user's to whoever is not root.
                let bytes = fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
                let found = self.shown_in(&String::from_utf8_lossy(&bytes));
                shown.extend(found.into_iter().map(|what| format!("{part} of {pid}: {what}")));
            }
        }
        (shown, pids.len())
    }
}

/// Whether nobody but its owner reaches a file: by its own mode, or by that of a folder above it, up to `root`.
pub fn is_private(file: &Path, root: &Path) -> bool {
    let mut places = file.ancestors().take_while(|place| place.starts_with(root));
    places.any(|place| fs::symlink_metadata(place).is_ok_and(|about| about.mode() & 0o077 == 0))
}
