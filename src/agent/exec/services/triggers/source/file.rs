//! Changes of a file, or of the entries of a folder, which are looked at again and again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::exec::services::triggers::{Reporter, fields};
use crate::files::blocking;
use hotdesk_domain::computer::template::trigger::MIN_POLL;
use hotdesk_domain::error::Error;
use hotdesk_wire::template::Choice as _;
use hotdesk_wire::template::trigger::FileChange;

/// Most entries of a folder that are compared.
const MAX_ENTRIES: usize = 10_000;

/// What is compared of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    is_folder: bool,
}

/// The file, or the entries of the folder, by their paths. Of a folder within, only its existence counts.
fn look(path: &Path) -> io::Result<BTreeMap<PathBuf, FileStamp>> {
    let stamp = |facts: &fs::Metadata| {
        let is_folder = facts.is_dir();
        let content = |value: i64| if is_folder { 0 } else { value };
        FileStamp {
            inode: facts.ino(),
            length: if is_folder { 0 } else { facts.len() },
            modified: (content(facts.mtime()), content(facts.mtime_nsec())),
            is_folder,
        }
    };
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    if !facts.is_dir() {
        return Ok(BTreeMap::from([(path.to_owned(), stamp(&facts))]));
    }
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(path)?.take(MAX_ENTRIES) {
        let entry = entry?;
        // An entry that was removed meanwhile is left out.
        if let Ok(facts) = fs::symlink_metadata(entry.path()) {
            entries.insert(entry.path(), stamp(&facts));
        }
    }
    Ok(entries)
}

/// The changes between two looks, in the order of the paths.
fn changes(
    before: &BTreeMap<PathBuf, FileStamp>,
    after: &BTreeMap<PathBuf, FileStamp>,
) -> Vec<(PathBuf, FileChange)> {
    let mut all = Vec::new();
    for (path, stamp) in after {
        match before.get(path) {
            None => all.push((path.clone(), FileChange::Create)),
            Some(earlier) if earlier != stamp => all.push((path.clone(), FileChange::Modify)),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    all.extend(gone.map(|path| (path.clone(), FileChange::Delete)));
    all
}

/// Reports changes of these kinds.
pub(super) async fn watch(path: &Path, events: &[FileChange], reporter: &Reporter) -> String {
    let read = || {
        let path = path.to_owned();
        blocking(move || {
            look(&path).map_err(|error| Error::failed(format!("{} cannot be read: {error}", path.display())))
        })
    };
    let mut before = match read().await {
        Ok(entries) => entries,
        Err(error) => return error.message,
    };
    reporter.watching();
    loop {
        tokio::time::sleep(MIN_POLL).await;
        let after = match read().await {
            Ok(entries) => entries,
            Err(error) => return error.message,
        };
        for (path, change) in changes(&before, &after) {
            if events.contains(&change) {
                let path = path.to_string_lossy();
                reporter.event("file", fields([("path", json!(path)), ("change", json!(change.word()))]));
            }
        }
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_folder_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let step = |before: &mut BTreeMap<PathBuf, FileStamp>, target: &Path| {
            let after = look(target).unwrap();
            let found = changes(before, &after);
            *before = after;
            let found = found.into_iter().map(|(path, change)| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), change.word())
            });
            found.collect::<Vec<_>>()
        };
        let mut seen = look(folder.path()).unwrap();
        fs::write(path("a"), "1").unwrap();
        fs::create_dir(path("d")).unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "create"), ("d".into(), "create")]);
        fs::write(path("a"), "22").unwrap();
        fs::write(path("d/inner"), "").unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "modify")]);
        fs::remove_file(path("a")).unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "delete")]);
        assert_eq!(step(&mut seen, folder.path()), []);
        // A file that does not exist yet.
        let mut seen = look(&path("later")).unwrap();
        assert_eq!(step(&mut seen, &path("later")), []);
        fs::write(path("later"), "").unwrap();
        assert_eq!(step(&mut seen, &path("later")), [("later".into(), "create")]);
    }
}
