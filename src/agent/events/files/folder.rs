//! Known files of one watched folder, and the changes to publish.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::files::write::temp_file::TEMPORARY;
use hotdesk_wire::desktop::event::FileAction;

/// How long a file may be written to without a `modified` event, and the interval of further ones.
const WRITE_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Most tracked files of a folder, about 10 MB of names.
pub(super) const MAX_FILES: usize = 50_000;

/// Fingerprint of a file: inode, modification time, size.
type FolderStamp = (u64, i64, i64, u64);

/// Files of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    real: PathBuf,
    compared: Instant,
    files: HashMap<OsString, Option<FolderStamp>>,
    /// Files that were written to since their last event, and the time of the first write.
    writing: BTreeMap<OsString, Instant>,
}

/// Callback for a change of a file.
pub(super) type FileCallback<'a> = &'a mut dyn FnMut(&OsStr, FileAction);

impl Folder {
    pub(super) fn new(real: &Path) -> Self {
        let (files, writing) = (HashMap::new(), BTreeMap::new());
        Self { real: real.to_owned(), compared: Instant::now(), files, writing }
    }

    /// When the last comparison began: it reported what notices from before tell.
    pub(super) fn compared(&self) -> Instant {
        self.compared
    }

    /// A file was created, or moved here. It may be gone already; the notice of that follows.
    pub(super) fn appeared(&mut self, name: &OsStr, report: FileCallback<'_>) {
        let stamp = self.stamp(name);
        if stamp.is_some() || !self.files.contains_key(name) {
            self.note(name, stamp, report);
        }
    }

    /// A file was removed, or moved elsewhere.
    pub(super) fn vanished(&mut self, name: &OsStr, report: FileCallback<'_>) {
        self.writing.remove(name);
        if self.files.remove(name).is_some() || (self.is_full() && !is_hidden(name)) {
            report(name, FileAction::Deleted);
        }
    }

    /// A file was written to.
    pub(super) fn written(&mut self, name: &OsStr) {
        if !is_hidden(name) && !self.writing.contains_key(name) && self.writing.len() < MAX_FILES {
            self.writing.insert(name.to_owned(), Instant::now());
        }
    }

    /// A file that was open for writing was closed.
    pub(super) fn closed(&mut self, name: &OsStr, report: FileCallback<'_>) {
        if self.writing.remove(name).is_some() {
            self.modified(name, report);
        }
    }

    /// When the next file that is still open for writing is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.writing.values().min().map(|since| *since + WRITE_REPORT_INTERVAL)
    }

    /// Reports the files that are due.
    pub(super) fn report_due(&mut self, now: Instant, report: FileCallback<'_>) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let due = |since: &Instant| *since + WRITE_REPORT_INTERVAL <= now;
        let names: Vec<OsString> =
            self.writing.iter().filter(|(_, since)| due(since)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.writing.remove(&name);
            self.modified(&name, report);
        }
    }

    /// Reads the whole folder and reports differences. An unreadable folder counts as empty. Returns the
    /// number of files beyond the limit.
    pub(super) fn compare(&mut self, report: FileCallback<'_>) -> u64 {
        self.compared = Instant::now();
        let listed = std::fs::read_dir(&self.real).into_iter().flatten().flatten();
        let (mut present, mut beyond) = (Vec::new(), 0);
        for entry in listed {
            if present.len() >= MAX_FILES {
                beyond += 1;
                continue;
            }
            match entry.metadata() {
                // It was removed, or its folder was moved, since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                metadata => present.push((entry.file_name(), metadata.ok().as_ref().map(stamp))),
            }
        }
        let mut gone = std::mem::take(&mut self.files);
        for (name, stamp) in present {
            if let Some(before) = gone.remove(&name) {
                self.files.insert(name.clone(), before);
            }
            self.note(&name, stamp, report);
        }
        for name in gone.into_keys() {
            self.writing.remove(&name);
            report(&name, FileAction::Deleted);
        }
        beyond
    }

    /// The folder was removed with its files.
    pub(super) fn clear(&mut self, report: FileCallback<'_>) {
        self.writing.clear();
        for name in std::mem::take(&mut self.files).into_keys() {
            report(&name, FileAction::Deleted);
        }
    }

    /// Records the state of a file.
    fn note(&mut self, name: &OsStr, stamp: Option<FolderStamp>, report: FileCallback<'_>) {
        if is_hidden(name) {
            return;
        }
        match self.files.get(name) {
            None => {
                if !self.is_full() {
                    self.files.insert(name.to_owned(), stamp);
                }
                report(name, FileAction::Created);
            }
            Some(before) if *before != stamp => {
                self.files.insert(name.to_owned(), stamp);
                // A file that is being written to is reported when that ends.
                if !self.writing.contains_key(name) {
                    report(name, FileAction::Modified);
                }
            }
            Some(_) => {}
        }
    }

    fn modified(&mut self, name: &OsStr, report: FileCallback<'_>) {
        if let Some(known) = self.files.get(name) {
            let stamp = self.stamp(name);
            if *known != stamp {
                self.files.insert(name.to_owned(), stamp);
            }
        }
        report(name, FileAction::Modified);
    }

    fn is_full(&self) -> bool {
        self.files.len() >= MAX_FILES
    }

    fn stamp(&self, name: &OsStr) -> Option<FolderStamp> {
        self.real.join(name).symlink_metadata().ok().as_ref().map(stamp)
    }
}

/// Fingerprint of a file. That of a folder does not depend on its content.
fn stamp(facts: &Metadata) -> FolderStamp {
    match facts.is_dir() {
        true => (facts.ino(), 0, 0, 0),
        false => (facts.ino(), facts.mtime(), facts.mtime_nsec(), facts.size()),
    }
}

/// Whether a name is that of a temporary file of the file routes.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct TestFolder {
        real: tempfile::TempDir,
        folder: Folder,
    }

    impl TestFolder {
        fn new(files: &[&str]) -> Self {
            let real = tempfile::tempdir().unwrap();
            files.iter().for_each(|name| fs::write(real.path().join(name), "x").unwrap());
            let mut folder = Folder::new(real.path());
            folder.compare(&mut |_, _| {});
            Self { real, folder }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.real.path().join(name), text).unwrap();
        }

        fn reported(
            &mut self,
            work: impl FnOnce(&mut Folder, FileCallback<'_>),
        ) -> Vec<(String, FileAction)> {
            let mut changes = Vec::new();
            work(&mut self.folder, &mut |name, action| {
                changes.push((name.to_str().unwrap().to_owned(), action))
            });
            changes.sort_by(|a, b| a.0.cmp(&b.0));
            changes
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
    fn a_comparison_reports_each_difference_once() {
        let mut stage = TestFolder::new(&["old", "same", "gone"]);
        stage.write("new", "1");
        stage.write("old", "longer");
        stage.write(&format!("{TEMPORARY}1"), "1");
        fs::remove_file(stage.real.path().join("gone")).unwrap();
        let reported = stage.reported(|folder, report| _ = folder.compare(report));
        assert_eq!(reported, [deleted("gone"), created("new"), modified("old")]);
        assert_eq!(stage.reported(|folder, report| _ = folder.compare(report)), []);
        // Notices of changes that the comparison has already reported.
        let reported = stage.reported(|folder, report| {
            folder.appeared("new".as_ref(), report);
            folder.vanished("gone".as_ref(), report);
            folder.appeared(format!("{TEMPORARY}1").as_ref(), report);
            folder.vanished(format!("{TEMPORARY}1").as_ref(), report);
        });
        assert_eq!(reported, []);
        assert_eq!(
            stage.reported(|folder, report| folder.clear(report)),
            [deleted("new"), deleted("old"), deleted("same")]
        );
    }

    #[test]
    fn a_file_that_is_gone_when_its_notice_is_read_was_created_and_deleted() {
        let mut stage = TestFolder::new(&["known"]);
        fs::remove_file(stage.real.path().join("known")).unwrap();
        let reported = stage.reported(|folder, report| {
            folder.appeared("known".as_ref(), report);
            folder.appeared("short".as_ref(), report);
        });
        assert_eq!(reported, [created("short")]);
        let reported = stage.reported(|folder, report| {
            folder.vanished("known".as_ref(), report);
            folder.vanished("short".as_ref(), report);
        });
        assert_eq!(reported, [deleted("known"), deleted("short")]);
    }

    #[test]
    fn a_file_that_is_replaced_is_modified() {
        let mut stage = TestFolder::new(&["a"]);
        stage.write("b", "other");
        fs::rename(stage.real.path().join("b"), stage.real.path().join("a")).unwrap();
        assert_eq!(stage.reported(|folder, report| folder.appeared("a".as_ref(), report)), [modified("a")]);
    }

    #[test]
    fn writes_are_reported_at_their_end_and_regularly_before() {
        let mut stage = TestFolder::new(&["a", "b"]);
        let reported = stage.reported(|folder, report| {
            folder.written("a".as_ref());
            folder.written("a".as_ref());
            folder.closed("a".as_ref(), report);
            folder.closed("a".as_ref(), report);
        });
        assert_eq!(reported, [modified("a")]);
        stage.folder.written("b".as_ref());
        let due = stage.folder.due().unwrap();
        let early =
            stage.reported(|folder, report| folder.report_due(due - Duration::from_millis(1), report));
        assert_eq!(early, []);
        assert_eq!(stage.reported(|folder, report| folder.report_due(due, report)), [modified("b")]);
        assert_eq!(stage.folder.due(), None);
        let reported = stage.reported(|folder, report| folder.closed("b".as_ref(), report));
        assert_eq!(reported, [], "nothing was written since");
        stage.folder.written("b".as_ref());
        let reported = stage.reported(|folder, report| folder.closed("b".as_ref(), report));
        assert_eq!(reported, [modified("b")]);
    }
}
