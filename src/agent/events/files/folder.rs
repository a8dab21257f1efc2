//! What has changed in one folder? What is known of its files, compared with what is noticed or seen.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::files::unfinished::TEMPORARY;
use hotdesk_wire::event::FileAction;

/// How long a file that is being written may stay open until it is told as modified, and how often after that.
const BURST: Duration = Duration::from_secs(1);
/// Most files of a folder that are remembered, about 10 MB of names.
pub(super) const MAX_FILES: usize = 50_000;

/// What a file is like; one that is like before was not changed.
type Stamp = (u64, i64, i64, u64);

/// The files of a folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    real: PathBuf,
    files: HashMap<OsString, Option<Stamp>>,
    /// Files that were written to since they were told, and when that began.
    writing: BTreeMap<OsString, Instant>,
}

/// Who is told what became of a file.
pub(super) type Told<'a> = &'a mut dyn FnMut(&OsStr, FileAction);

impl Folder {
    pub(super) fn new(real: &Path) -> Self {
        Self { real: real.to_owned(), ..Self::default() }
    }

    /// A file was made, or moved here.
    pub(super) fn appeared(&mut self, name: &OsStr, tell: Told<'_>) {
        let stamp = self.stamp(name);
        self.note(name, stamp, tell);
    }

    /// A file was removed, or moved elsewhere.
    pub(super) fn vanished(&mut self, name: &OsStr, tell: Told<'_>) {
        self.writing.remove(name);
        if self.files.remove(name).is_some() || (self.is_full() && !is_hidden(name)) {
            tell(name, FileAction::Deleted);
        }
    }

    /// Something was written to a file.
    pub(super) fn written(&mut self, name: &OsStr) {
        if !is_hidden(name) && !self.writing.contains_key(name) && self.writing.len() < MAX_FILES {
            self.writing.insert(name.to_owned(), Instant::now());
        }
    }

    /// A file that could be written to was closed.
    pub(super) fn closed(&mut self, name: &OsStr, tell: Told<'_>) {
        if self.writing.remove(name).is_some() {
            self.modified(name, tell);
        }
    }

    /// When the next file is due that was written to and not closed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.writing.values().min().map(|since| *since + BURST)
    }

    /// Tells of the files that are due.
    pub(super) fn tell_due(&mut self, now: Instant, tell: Told<'_>) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let due = |since: &Instant| *since + BURST <= now;
        let names: Vec<OsString> =
            self.writing.iter().filter(|(_, since)| due(since)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.writing.remove(&name);
            self.modified(&name, tell);
        }
    }

    /// Looks at the whole folder and tells what is different. One that cannot be read is empty. Returns how many of its
    /// files are too many to be remembered.
    pub(super) fn look(&mut self, tell: Told<'_>) -> u64 {
        let listed = std::fs::read_dir(&self.real).into_iter().flatten().flatten();
        let (mut present, mut beyond) = (Vec::new(), 0);
        for entry in listed {
            if present.len() < MAX_FILES {
                present.push((entry.file_name(), entry.metadata().ok().as_ref().map(stamp)));
            } else {
                beyond += 1;
            }
        }
        let mut gone = std::mem::take(&mut self.files);
        for (name, stamp) in present {
            if let Some(before) = gone.remove(&name) {
                self.files.insert(name.clone(), before);
            }
            self.note(&name, stamp, tell);
        }
        for name in gone.into_keys() {
            self.writing.remove(&name);
            tell(&name, FileAction::Deleted);
        }
        beyond
    }

    /// The folder is gone, and with it what was in it.
    pub(super) fn clear(&mut self, tell: Told<'_>) {
        self.writing.clear();
        for name in std::mem::take(&mut self.files).into_keys() {
            tell(&name, FileAction::Deleted);
        }
    }

    /// A file is there, like this.
    fn note(&mut self, name: &OsStr, stamp: Option<Stamp>, tell: Told<'_>) {
        if is_hidden(name) {
            return;
        }
        match self.files.get(name) {
            None => {
                if !self.is_full() {
                    self.files.insert(name.to_owned(), stamp);
                }
                tell(name, FileAction::Created);
            }
            Some(before) if *before != stamp => {
                self.files.insert(name.to_owned(), stamp);
                // What is being written to is told when that ends.
                if !self.writing.contains_key(name) {
                    tell(name, FileAction::Modified);
                }
            }
            Some(_) => {}
        }
    }

    fn modified(&mut self, name: &OsStr, tell: Told<'_>) {
        if let Some(known) = self.files.get(name) {
            let stamp = self.stamp(name);
            if *known != stamp {
                self.files.insert(name.to_owned(), stamp);
            }
        }
        tell(name, FileAction::Modified);
    }

    fn is_full(&self) -> bool {
        self.files.len() >= MAX_FILES
    }

    fn stamp(&self, name: &OsStr) -> Option<Stamp> {
        self.real.join(name).symlink_metadata().ok().as_ref().map(stamp)
    }
}

/// What a file is like. A folder is the same whatever is in it.
fn stamp(facts: &Metadata) -> Stamp {
    match facts.is_dir() {
        true => (facts.ino(), 0, 0, 0),
        false => (facts.ino(), facts.mtime(), facts.mtime_nsec(), facts.size()),
    }
}

/// Whether a name is one of the files' routes for what is not whole yet.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Stage {
        real: tempfile::TempDir,
        folder: Folder,
    }

    impl Stage {
        fn new(files: &[&str]) -> Self {
            let real = tempfile::tempdir().unwrap();
            files.iter().for_each(|name| fs::write(real.path().join(name), "x").unwrap());
            let mut folder = Folder::new(real.path());
            folder.look(&mut |_, _| {});
            Self { real, folder }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.real.path().join(name), text).unwrap();
        }

        fn told(&mut self, work: impl FnOnce(&mut Folder, Told<'_>)) -> Vec<(String, FileAction)> {
            let mut told = Vec::new();
            work(&mut self.folder, &mut |name, action| {
                told.push((name.to_str().unwrap().to_owned(), action))
            });
            told.sort_by(|a, b| a.0.cmp(&b.0));
            told
        }
    }

    fn created(name: &str) -> (String, FileAction) {
        (name.to_owned(), FileAction::Created)
    }

    fn modified(name: &str) -> (String, FileAction) {
        (name.to_owned(), FileAction::Modified)
    }

    fn deleted(name: &str) -> (String, FileAction) {
        (name.to_owned(), FileAction::Deleted)
    }

    #[test]
    fn a_look_tells_what_is_different_and_only_once() {
        let mut stage = Stage::new(&["old", "same", "gone"]);
        stage.write("new", "1");
        stage.write("old", "longer");
        stage.write(&format!("{TEMPORARY}1"), "1");
        fs::remove_file(stage.real.path().join("gone")).unwrap();
        let told = stage.told(|folder, tell| _ = folder.look(tell));
        assert_eq!(told, [deleted("gone"), created("new"), modified("old")]);
        assert_eq!(stage.told(|folder, tell| _ = folder.look(tell)), []);
        // Notices that come after the look they were a part of.
        let told = stage.told(|folder, tell| {
            folder.appeared("new".as_ref(), tell);
            folder.vanished("gone".as_ref(), tell);
            folder.appeared(format!("{TEMPORARY}1").as_ref(), tell);
            folder.vanished(format!("{TEMPORARY}1").as_ref(), tell);
        });
        assert_eq!(told, []);
        assert_eq!(
            stage.told(|folder, tell| folder.clear(tell)),
            [deleted("new"), deleted("old"), deleted("same")]
        );
    }

    #[test]
    fn a_file_that_is_replaced_is_modified() {
        let mut stage = Stage::new(&["a"]);
        stage.write("b", "other");
        fs::rename(stage.real.path().join("b"), stage.real.path().join("a")).unwrap();
        assert_eq!(stage.told(|folder, tell| folder.appeared("a".as_ref(), tell)), [modified("a")]);
    }

    #[test]
    fn writing_is_told_when_it_ends_and_now_and_then_while_it_lasts() {
        let mut stage = Stage::new(&["a", "b"]);
        let told = stage.told(|folder, tell| {
            folder.written("a".as_ref());
            folder.written("a".as_ref());
            folder.closed("a".as_ref(), tell);
            folder.closed("a".as_ref(), tell);
        });
        assert_eq!(told, [modified("a")]);
        stage.folder.written("b".as_ref());
        let due = stage.folder.due().unwrap();
        let early = stage.told(|folder, tell| folder.tell_due(due - Duration::from_millis(1), tell));
        assert_eq!(early, []);
        assert_eq!(stage.told(|folder, tell| folder.tell_due(due, tell)), [modified("b")]);
        assert_eq!(stage.folder.due(), None);
        let told = stage.told(|folder, tell| folder.closed("b".as_ref(), tell));
        assert_eq!(told, [], "nothing was written since");
        stage.folder.written("b".as_ref());
        let told = stage.told(|folder, tell| folder.closed("b".as_ref(), tell));
        assert_eq!(told, [modified("b")]);
    }
}
