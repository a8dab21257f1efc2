//! Store of objects in a local folder, one file each.
//!
//! A file is written beside its final name and then renamed, so it appears whole or not at all. It is on the
//! disk when a write returns.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::store::{ObjectError, ObjectStore};
use hotdesk_base::tasks::spawn_blocking;

/// Attempts to create a file. A removal of a computer's last copy may remove the new file's folder meanwhile.
const MAX_CREATIONS: u32 = 3;

/// A store in a local folder.
pub(crate) struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    /// Uses a folder that exists.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

#[async_trait]
impl ObjectStore for FolderStore {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let path = self.folder.join(name);
        blocking(move || write(&path, &bytes)).await.map_err(failed("write", name))
    }

    async fn get(&self, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        let path = self.folder.join(name);
        match blocking(move || read(&path, most)).await {
            Ok(found) => found.ok_or_else(|| ObjectError::too_long(most)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ObjectError::Missing),
            Err(error) => Err(failed("read", name)(error)),
        }
    }

    async fn remove(&self, folder: &str) -> Result<(), ObjectError> {
        let path = self.folder.join(folder);
        blocking(move || remove(&path)).await.map_err(failed("remove", folder))
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError> {
        let path = self.folder.join(folder);
        blocking(move || folders(&path)).await.map_err(failed("list", folder))
    }
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => Err(io::Error::other(panicked)),
    }
}

fn failed(verb: &str, name: &str) -> impl Fn(io::Error) -> ObjectError {
    move |error| ObjectError::Failed(format!("cannot {verb} {name}: {error}"))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!("#{}", Uuid::new_v4().simple()));
    let staged = PathBuf::from(staged);
    let mut file = create(&staged, parent)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&staged, path));
    if let Err(error) = written {
        // The removal of the copy removes what stays.
        let _left = std::fs::remove_file(&staged);
        return Err(error);
    }
    sync_folder(parent)
}

/// Creates a file, and its folder if that is missing.
fn create(path: &Path, parent: &Path) -> io::Result<File> {
    let mut creations = 1;
    loop {
        match create_folders(parent).and_then(|()| File::create_new(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && creations < MAX_CREATIONS => {
                creations += 1;
            }
            done => return done,
        }
    }
}

/// Creates a folder and its missing parents, and writes their entries to the disk.
fn create_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().ok_or(io::ErrorKind::NotFound)?;
    create_folders(parent)?;
    match std::fs::create_dir(folder) {
        // A concurrent write created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => done?,
    }
    sync_folder(parent)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a file; `None` when it is longer than `most` bytes.
fn read(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

fn remove(folder: &Path) -> io::Result<()> {
    let removed = std::fs::remove_dir_all(folder);
    // Removes the computer's folder too, once it is empty.
    let _not_empty = folder.parent().map(std::fs::remove_dir);
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Lists folders, and links to folders.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().is_dir() {
            // Names in other encodings are not hotdesk's.
            found.extend(entry.file_name().into_string());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_write_replaces_the_whole_object_and_leaves_no_other_file() {
        let temp = tempfile::tempdir().unwrap();
        let store = FolderStore::new(temp.path().to_owned());
        for text in ["a long text", "short", ""] {
            store.put("one/two/part-0", Bytes::from(text)).await.unwrap();
            assert_eq!(store.get("one/two/part-0", 11).await.unwrap(), text.as_bytes());
            assert_eq!(names(&temp.path().join("one/two")), ["part-0"]);
        }
    }

    #[tokio::test]
    async fn concurrent_writes_and_removals_of_neighbours_do_not_fail() {
        let temp = tempfile::tempdir().unwrap();
        let store = FolderStore::new(temp.path().to_owned());
        for _ in 0..20 {
            store.put("computer/old/part-0", Bytes::from_static(b"x")).await.unwrap();
            let (removed, first, second) = tokio::join!(
                store.remove("computer/old"),
                store.put("computer/new/part-0", Bytes::from_static(b"first")),
                store.put("computer/new/part-1", Bytes::from_static(b"second")),
            );
            assert_eq!((removed, first, second), (Ok(()), Ok(()), Ok(())));
            assert_eq!(names(&temp.path().join("computer/new")), ["part-0", "part-1"]);
            store.remove("computer/new").await.unwrap();
            assert!(!temp.path().join("computer").exists());
        }
    }

    #[tokio::test]
    async fn a_failed_write_names_the_object_and_leaves_no_file() {
        let temp = tempfile::tempdir().unwrap();
        let store = FolderStore::new(temp.path().to_owned());
        // A folder has the object's name.
        std::fs::create_dir_all(temp.path().join("one/part-0/inside")).unwrap();
        let Err(ObjectError::Failed(text)) = store.put("one/part-0", Bytes::from_static(b"x")).await else {
            panic!("it failed")
        };
        assert!(text.starts_with("cannot write one/part-0: "), "{text}");
        assert_eq!(names(&temp.path().join("one")), ["part-0"]);
        // A file has the name of a folder.
        std::fs::write(temp.path().join("two"), "").unwrap();
        let refused = store.put("two/part-0", Bytes::from_static(b"x")).await;
        assert!(matches!(refused, Err(ObjectError::Failed(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_list_has_folders_alone() {
        let temp = tempfile::tempdir().unwrap();
        let store = FolderStore::new(temp.path().to_owned());
        assert_eq!(store.folders("").await.unwrap(), [""; 0]);
        assert_eq!(store.folders("missing/folder").await.unwrap(), [""; 0]);
        std::fs::create_dir(temp.path().join("folder")).unwrap();
        std::fs::write(temp.path().join("file"), "").unwrap();
        assert_eq!(store.folders("").await.unwrap(), ["folder"]);
    }
}
