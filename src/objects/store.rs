//! Interface of a store of objects, and its error.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

/// Error of a request to the object store. `{:#}` adds the store's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The object does not exist.
    Missing,
    /// The store is unreachable, refused or failed. The text is for the log and has no secrets.
    Failed(String),
}

impl ObjectError {
    /// Error of an object that is longer than `most` bytes.
    pub(crate) fn too_long(most: usize) -> Self {
        Self::Failed(format!("the object is longer than {most} bytes"))
    }
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

/// A store of objects.
///
/// Names are relative paths with `/` between their parts. No part is empty, `.` or `..`.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Stores an object, or replaces the one of that name. Readers get the old or the new object, never a
    /// part of one.
    ///
    /// # Errors
    /// `Failed` when the store fails; the object may be stored then.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError>;

    /// Reads an object of at most `most` bytes.
    ///
    /// # Errors
    /// `Missing` when it does not exist; `Failed` when it is longer or the store fails.
    async fn get(&self, name: &str, most: usize) -> Result<Vec<u8>, ObjectError>;

    /// Removes all objects in a folder, and what interrupted writes left in it. A folder without objects is
    /// no error. Each request to a remote store has its own timeout.
    ///
    /// # Errors
    /// `Failed` when the store fails; some objects may be removed then.
    async fn remove(&self, folder: &str) -> Result<(), ObjectError>;

    /// Lists the folders in a folder (empty: the whole store), as names of one part, in no particular order.
    /// A folder without objects has none.
    ///
    /// # Errors
    /// `Failed` when the store fails.
    async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError>;
}
