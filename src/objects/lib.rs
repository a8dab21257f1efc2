//! Floor 4: object storage of copies of saved states, in a folder or an S3 bucket.
//!
//! ```text
//! <root>/<controller>/<computer>/<generation>-<operation>/part-0 ...   compressed parts
//!                                                        /manifest     parts and checksums; written last
//! ```
//! An object's name identifies its computer and copy before the object has content. A sweep can therefore
//! remove the remains of a crash.

mod backend;
mod client;
mod label;
mod manifest;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

pub use self::backend::{ObjectStoreSettings, S3Credentials};
pub use self::label::Label;
pub use self::manifest::{
    MANIFEST_BYTES, Manifest, ManifestFile, PART_BYTES, Part, STORED_PART_BYTES, checksum, pack, unpack,
};
use hotdesk_base::secret::Secret;

/// Timeout of one request: 4 MiB over a line of 1 Mbit/s take 34 s.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest error text of a store that is passed on, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// Error of a request to the object store. `{:#}` adds the store's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The object does not exist.
    Missing,
    /// The store is unreachable, refused or failed. The text is for the log and has no secrets.
    Failed(String),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such object"),
            Self::Failed(detail) if f.alternate() => write!(f, "the object store failed: {detail}"),
            Self::Failed(_) => f.write_str("the object store failed"),
        }
    }
}

impl std::error::Error for ObjectError {}

/// A folder of an object store, such as that of one controller; cheap to clone.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    root: Path,
    /// The local folder behind `store`; `None` for a bucket.
    folder: Option<PathBuf>,
    timeout: Duration,
    /// Texts that are removed from errors.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("root", &self.root.as_ref()).finish_non_exhaustive()
    }
}

impl Objects {
    /// Uses any store, with this timeout of each request.
    pub fn over(store: Arc<dyn ObjectStore>, timeout: Duration) -> Self {
        Self { store, root: Path::default(), folder: None, timeout, secrets: Vec::new() }
    }

    /// Returns the sub-folder of this name. Controllers that share a store use one each.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self { root: self.root.clone().join(name), ..self.clone() }
    }

    /// Stores an object, or replaces the one of that name.
    ///
    /// # Errors
    /// `Failed` when the store fails or the request times out; the object may be stored then.
    pub async fn put(&self, label: &Label, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let path = self.path(label).join(name);
        self.with_timeout(self.store.put(&path, bytes.into())).await.map(drop)
    }

    /// Reads an object of at most `most` bytes.
    ///
    /// # Errors
    /// `Missing` when it does not exist; `Failed` when it is longer, the store fails or the request times
    /// out.
    pub async fn get(&self, label: &Label, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        let path = self.path(label).join(name);
        self.with_timeout(async {
            let mut pieces = self.store.get(&path).await?.into_stream();
            let mut all = Vec::new();
            while let Some(piece) = pieces.try_next().await? {
                if all.len() + piece.len() > most {
                    let source = format!("the object is longer than {most} bytes").into();
                    return Err(object_store::Error::Generic { store: "object", source });
                }
                all.extend_from_slice(&piece);
            }
            Ok(all)
        })
        .await
    }

    /// Removes all objects of a copy. A copy without objects is no error.
    ///
    /// # Errors
    /// `Failed` when the store fails or a request times out; some objects may be removed then.
    pub async fn remove(&self, label: &Label) -> Result<(), ObjectError> {
        let path = self.path(label);
        let found = self.with_timeout(self.store.list(Some(&path)).try_collect::<Vec<_>>()).await?;
        let paths = futures_util::stream::iter(found.into_iter().map(|object| Ok(object.location)));
        let mut deleted = self.store.delete_stream(paths.boxed());
        while let Some(next) = self.next(&mut deleted).await {
            match next {
                Ok(_) | Err(ObjectError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(folder) = &self.folder else { return Ok(()) };
        // The store does not list the temporary file of an interrupted write.
        let folder = folder.join(path.as_ref());
        let removed = hotdesk_base::tasks::spawn_blocking(move || {
            let removed = std::fs::remove_dir_all(&folder);
            // Removes the computer's folder too, once it is empty.
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

    /// Lists the copies that have an object, in no particular order. Other names are skipped.
    ///
    /// # Errors
    /// `Failed` when the store fails or a request times out.
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
        match self.with_timeout(self.store.list_with_delimiter(Some(path))).await {
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
        match tokio::time::timeout(self.timeout, stream.next()).await {
            Ok(next) => next.map(|it| it.map_err(|error| self.convert_error(error))),
            Err(_) => Some(Err(timed_out())),
        }
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map_err(|error| self.convert_error(error)),
            Err(_) => Err(timed_out()),
        }
    }

    /// Converts an error of the store: shortened and without secrets.
    fn convert_error(&self, error: object_store::Error) -> ObjectError {
        if let object_store::Error::NotFound { .. } = error {
            return ObjectError::Missing;
        }
        let mut text = error.to_string();
        for secret in &self.secrets {
            text = text.replace(secret.reveal(), "***");
        }
        ObjectError::Failed(text.chars().take(MAX_ERROR_CHARS).collect())
    }
}

fn timed_out() -> ObjectError {
    ObjectError::Failed("no answer in time".to_owned())
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
    async fn objects_of_a_folder_are_separate_and_can_be_read_listed_and_removed() {
        let temp = tempfile::tempdir().unwrap();
        let settings = ObjectStoreSettings {
            url: temp.path().join("copies").display().to_string(),
            ..ObjectStoreSettings::default()
        };
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
    async fn an_interrupted_write_is_listed_and_removed() {
        let temp = tempfile::tempdir().unwrap();
        let settings =
            ObjectStoreSettings { url: temp.path().display().to_string(), ..ObjectStoreSettings::default() };
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
    fn errors_are_short_and_without_secrets() {
        let mut objects = Objects::over(Arc::new(InMemory::new()), TIMEOUT);
        objects.secrets = vec![Secret::new("hunter2")];
        let source = format!("signed with hunter2{}", "x".repeat(1000)).into();
        let ObjectError::Failed(text) =
            objects.convert_error(object_store::Error::Generic { store: "S3", source })
        else {
            panic!("it failed")
        };
        assert!(text.contains("***") && !text.contains("hunter2") && text.len() <= MAX_ERROR_CHARS, "{text}");
    }
}
