//! Floor 4: object storage of copies of saved states, in a folder or an S3 bucket.
//!
//! ```text
//! <root>/<controller>/<computer>/<generation>-<operation>/part-0 ...   compressed parts
//!                                                        /manifest     parts and checksums; written last
//! ```
//! An object's name identifies its computer and copy before the object has content. A sweep can therefore
//! remove the remains of a crash.

mod backend;
mod folder;
mod label;
mod manifest;
mod s3;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use self::backend::{ObjectStoreSettings, S3Credentials};
pub use self::label::Label;
pub use self::manifest::{
    MANIFEST_BYTES, Manifest, ManifestFile, PART_BYTES, Part, STORED_PART_BYTES, checksum, pack, unpack,
};
pub use self::store::{ObjectError, ObjectStore};
use hotdesk_base::secret::Secret;

/// Timeout of one request: 4 MiB over a line of 1 Mbit/s take 34 s.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest error text of a store that is passed on, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// A folder of an object store, such as that of one controller; cheap to clone.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Name of the folder in the store; empty for the whole store.
    root: String,
    timeout: Duration,
    /// Texts that are removed from errors.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Objects {
    /// Uses any store, with this timeout of each request.
    pub fn over(store: Arc<dyn ObjectStore>, timeout: Duration) -> Self {
        Self { store, root: String::new(), timeout, secrets: Vec::new() }
    }

    /// Returns the sub-folder of this name. Controllers that share a store use one each.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self { root: below(&self.root, name), ..self.clone() }
    }

    /// Stores an object, or replaces the one of that name.
    ///
    /// # Errors
    /// `Failed` when the store fails or the request times out; the object may be stored then.
    pub async fn put(&self, label: &Label, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let name = below(&self.folder(label), name);
        self.with_timeout(self.store.put(&name, bytes)).await
    }

    /// Reads an object of at most `most` bytes.
    ///
    /// # Errors
    /// `Missing` when it does not exist; `Failed` when it is longer, the store fails or the request times
    /// out.
    pub async fn get(&self, label: &Label, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        let name = below(&self.folder(label), name);
        self.with_timeout(self.store.get(&name, most)).await
    }

    /// Removes all objects of a copy. A copy without objects is no error.
    ///
    /// # Errors
    /// `Failed` when the store fails or a request times out; some objects may be removed then.
    pub async fn remove(&self, label: &Label) -> Result<(), ObjectError> {
        // A copy has thousands of objects, so all their removals have no common timeout.
        self.store.remove(&self.folder(label)).await.map_err(|error| self.convert_error(error))
    }

    /// Lists the copies that have an object, in no particular order. Other names are skipped.
    ///
    /// # Errors
    /// `Failed` when the store fails or a request times out.
    pub async fn labels(&self) -> Result<Vec<Label>, ObjectError> {
        let mut found = Vec::new();
        for computer in self.folders(&self.root).await? {
            for copy in self.folders(&below(&self.root, &computer)).await? {
                found.extend(below(&computer, &copy).parse::<Label>().ok());
            }
        }
        Ok(found)
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError> {
        self.with_timeout(self.store.folders(folder)).await
    }

    /// Name of the folder of a copy.
    fn folder(&self, label: &Label) -> String {
        below(&self.root, &label.to_string())
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, ObjectError>>,
    ) -> Result<T, ObjectError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map_err(|error| self.convert_error(error)),
            Err(_) => Err(ObjectError::Failed("no answer in time".to_owned())),
        }
    }

    /// Shortens an error of the store and removes secrets from it.
    fn convert_error(&self, error: ObjectError) -> ObjectError {
        let mut text = match error {
            ObjectError::Missing => return ObjectError::Missing,
            ObjectError::Failed(text) => text,
        };
        for secret in &self.secrets {
            text = text.replace(secret.reveal(), "***");
        }
        ObjectError::Failed(text.chars().take(MAX_ERROR_CHARS).collect())
    }
}

/// Name of something in a folder of the store.
fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use rusty_s3::Credentials;

    use super::*;
    use crate::folder::FolderStore;
    use crate::s3::S3Store;
    use crate::s3::test_server::TestServer;
    use hotdesk_base::ids::ComputerId;

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
        let server = TestServer::start();
        let credentials = Credentials::new("an-id", "hunter2");
        let bucket = S3Store::new(&server.origin, TestServer::BUCKET, "us-east-1", credentials, TIMEOUT);
        for objects in [
            Objects::over(Arc::new(bucket.unwrap()), TIMEOUT).within("some").within("prefix"),
            Objects::open(&settings, None).unwrap(),
        ] {
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
        let names = server.names();
        assert_eq!(names.len(), 1);
        assert!(names[0].starts_with("some/prefix/one/") && names[0].ends_with("/part-0"), "{names:?}");
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
        let mut objects = Objects::over(Arc::new(FolderStore::new("/nonexistent".into())), TIMEOUT);
        objects.secrets = vec![Secret::new("hunter2")];
        assert_eq!(objects.convert_error(ObjectError::Missing), ObjectError::Missing);
        let text = format!("signed with hunter2{}", "x".repeat(1000));
        let ObjectError::Failed(text) = objects.convert_error(ObjectError::Failed(text)) else {
            panic!("it failed")
        };
        assert!(text.contains("***") && !text.contains("hunter2") && text.len() <= MAX_ERROR_CHARS, "{text}");
    }
}
