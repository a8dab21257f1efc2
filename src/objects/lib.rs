//! Floor 4: where are copies of saved state kept? In an object store: a folder, or whatever speaks S3.
//!
//! ```text
//! <root>/<controller>/<computer>/<generation>-<operation>/part-0 ...   pieces, compressed
//!                                                        /manifest     which pieces, with their sums; written last
//! ```
//! An object's name says whose it is before anything is in it, so that what a crash leaves can be told and swept.

mod label;
mod manifest;
mod place;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

pub use self::label::Label;
pub use self::manifest::{
    Listed, MANIFEST_BYTES, Manifest, PART_BYTES, Part, STORED_PART_BYTES, pack, sum, unpack,
};
pub use self::place::{Credentials, Settings};
use hotdesk_base::secret::Secret;

/// How long one request may take: a piece of some MiB over a line of 1 Mbit/s.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest text of a store's complaint that is kept, in characters.
const MAX_COMPLAINT: usize = 300;

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// There is no such object.
    Missing,
    /// The store is not there, refused or failed; for the log, without secrets.
    Failed(String),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such object"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ObjectError {}

/// The part of an object store that one controller uses.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// The folder behind `store`, where it is one.
    folder: Option<PathBuf>,
    patience: Duration,
    /// What must not be in a complaint.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("root", &self.root.as_ref()).finish_non_exhaustive()
    }
}

impl Objects {
    /// Over any store, with a patience of one's own for each request.
    pub fn over(store: Arc<dyn ObjectStore>, patience: Duration) -> Self {
        Self { store, root: Path::default(), folder: None, patience, secrets: Vec::new() }
    }

    /// The same below a name: controllers that share a store see nothing of each other's.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self { root: self.root.clone().join(name), ..self.clone() }
    }

    /// Stores an object, in place of one of that name.
    ///
    /// # Errors
    /// When the store fails or takes too long.
    pub async fn put(&self, label: &Label, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let path = self.path(label).join(name);
        self.within_patience(self.store.put(&path, bytes.into())).await.map(drop)
    }

    /// Reads an object of at most `most` bytes.
    ///
    /// # Errors
    /// `Missing`; `Failed` also when it is longer.
    pub async fn get(&self, label: &Label, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        let path = self.path(label).join(name);
        self.within_patience(async {
            let mut pieces = self.store.get(&path).await?.into_stream();
            let mut all = Vec::new();
            while let Some(piece) = pieces.try_next().await? {
                if all.len() + piece.len() > most {
                    let source = format!("it is longer than {most} bytes").into();
                    return Err(object_store::Error::Generic { store: "object", source });
                }
                all.extend_from_slice(&piece);
            }
            Ok(all)
        })
        .await
    }

    /// Removes every object of a label.
    ///
    /// # Errors
    /// When the store fails; some may be gone then.
    pub async fn remove(&self, label: &Label) -> Result<(), ObjectError> {
        let path = self.path(label);
        let found = self.within_patience(self.store.list(Some(&path)).try_collect::<Vec<_>>()).await?;
        let paths = futures_util::stream::iter(found.into_iter().map(|object| Ok(object.location)));
        let mut gone = self.store.delete_stream(paths.boxed());
        while let Some(next) = self.next(&mut gone).await {
            match next {
                Ok(_) | Err(ObjectError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(folder) = &self.folder else { return Ok(()) };
        // A write that was cut short lies beside the objects, and the store does not list it.
        let folder = folder.join(path.as_ref());
        let removed = tokio::task::spawn_blocking(move || {
            let removed = std::fs::remove_dir_all(&folder);
            // The computer's own folder goes with the last of its copies.
            let _not_empty = folder.parent().map(std::fs::remove_dir);
            removed
        });
        match removed.await {
            Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ObjectError::Failed(error.to_string()))
            }
            Ok(Ok(()) | Err(_)) => Ok(()),
            Err(error) => Err(ObjectError::Failed(error.to_string())),
        }
    }

    /// Every label that there is anything of. Names that are none are left alone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn labels(&self) -> Result<Vec<Label>, ObjectError> {
        let mut found = Vec::new();
        for computer in self.folders(&self.root).await? {
            for copy in self.folders(&computer).await? {
                let inside = copy
                    .prefix_match(&self.root)
                    .map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
                found.extend(inside.and_then(|text| text.parse::<Label>().ok()));
            }
        }
        Ok(found)
    }

    async fn folders(&self, path: &Path) -> Result<Vec<Path>, ObjectError> {
        match self.within_patience(self.store.list_with_delimiter(Some(path))).await {
            Ok(listed) => Ok(listed.common_prefixes),
            Err(ObjectError::Missing) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn path(&self, label: &Label) -> Path {
        label.to_string().split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    async fn next<T>(
        &self,
        stream: &mut (impl futures_util::Stream<Item = object_store::Result<T>> + Unpin),
    ) -> Option<Result<T, ObjectError>> {
        match tokio::time::timeout(self.patience, stream.next()).await {
            Ok(next) => next.map(|it| it.map_err(|error| self.told(error))),
            Err(_) => Some(Err(late())),
        }
    }

    async fn within_patience<T>(
        &self,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectError> {
        match tokio::time::timeout(self.patience, work).await {
            Ok(done) => done.map_err(|error| self.told(error)),
            Err(_) => Err(late()),
        }
    }

    /// A store's complaint, shortened and without secrets.
    fn told(&self, error: object_store::Error) -> ObjectError {
        if let object_store::Error::NotFound { .. } = error {
            return ObjectError::Missing;
        }
        let mut text = error.to_string();
        for secret in &self.secrets {
            text = text.replace(secret.reveal(), "***");
        }
        ObjectError::Failed(text.chars().take(MAX_COMPLAINT).collect())
    }
}

fn late() -> ObjectError {
    ObjectError::Failed("the store did not answer in time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;
    use object_store::memory::InMemory;

    fn a_label() -> Label {
        Label { computer: ComputerId::random(), generation: 3, operation: uuid::Uuid::new_v4() }
    }

    #[tokio::test]
    async fn what_is_stored_is_read_listed_and_removed_and_others_are_not_seen() {
        let temp = tempfile::tempdir().unwrap();
        let settings =
            Settings { url: temp.path().join("copies").display().to_string(), ..Settings::default() };
        for objects in
            [Objects::over(Arc::new(InMemory::new()), TIMEOUT), Objects::open(&settings, None).unwrap()]
        {
            let (mine, others) = (objects.within("one"), objects.within("two"));
            assert_eq!(mine.labels().await.unwrap(), []);
            let (first, second) = (a_label(), a_label());
            mine.put(&first, "part-0", Bytes::from_static(b"hello")).await.unwrap();
            mine.put(&second, "part-0", Bytes::from_static(b"there")).await.unwrap();
            assert_eq!(mine.get(&first, "part-0", 5).await.unwrap(), b"hello");
            assert!(matches!(mine.get(&first, "part-0", 4).await, Err(ObjectError::Failed(_))));
            assert_eq!(mine.get(&first, "part-1", 9).await, Err(ObjectError::Missing));
            let mut found = mine.labels().await.unwrap();
            found.sort_by_key(|label| label.computer);
            let mut expected = [first, second];
            expected.sort_by_key(|label| label.computer);
            assert_eq!(found, expected);
            assert_eq!(others.labels().await.unwrap(), []);
            for _ in 0..2 {
                mine.remove(&first).await.unwrap();
                assert_eq!(mine.labels().await.unwrap(), [second]);
            }
        }
        assert_eq!(std::fs::read_dir(temp.path().join("copies/one")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_write_that_was_cut_short_is_found_and_removed_with_its_label() {
        let temp = tempfile::tempdir().unwrap();
        let settings = Settings { url: temp.path().display().to_string(), ..Settings::default() };
        let objects = Objects::open(&settings, None).unwrap().within("one");
        let label = a_label();
        let folder = temp.path().join("one").join(label.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("part-0#1"), "half").unwrap();
        assert_eq!(objects.labels().await.unwrap(), [label]);
        objects.remove(&label).await.unwrap();
        assert_eq!(objects.labels().await.unwrap(), []);
        assert!(!folder.exists());
    }

    #[test]
    fn complaints_are_short_and_hold_no_secrets() {
        let mut objects = Objects::over(Arc::new(InMemory::new()), TIMEOUT);
        objects.secrets = vec![Secret::new("hunter2")];
        let source = format!("signed with hunter2{}", "x".repeat(1000)).into();
        let ObjectError::Failed(text) = objects.told(object_store::Error::Generic { store: "S3", source })
        else {
            panic!("it failed")
        };
        assert!(text.contains("***") && !text.contains("hunter2") && text.len() <= MAX_COMPLAINT, "{text}");
    }
}
