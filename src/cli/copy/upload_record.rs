//! Records of unfinished uploads, so that the same command continues them after an interruption.
//!
//! A record is a file in `~/.hotdesk/uploads`: for a file the id of the upload, for a folder where it is collected and
//! what has arrived. Its name is a digest of what is copied where.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::client::credentials;
use hotdesk_base::hex::hex;

/// Age at which a record is removed: the server removes an upload 24 h after its last byte.
const MAX_AGE: Duration = Duration::from_secs(48 * 3600);

/// Record of one upload.
#[derive(Debug)]
pub struct UploadRecord(PathBuf);

/// Metadata of a file that change when its content does: size, inode and time of modification.
pub fn facts(metadata: &fs::Metadata) -> Vec<u8> {
    let facts = [
        metadata.size().to_le_bytes(),
        metadata.ino().to_le_bytes(),
        metadata.mtime().to_le_bytes(),
        metadata.mtime_nsec().to_le_bytes(),
    ];
    facts.concat()
}

impl UploadRecord {
    /// The record of a copy of a file with these [`facts`]. `target` names the computer, the path and the
    /// options. A file that has changed has another record.
    ///
    /// # Errors
    /// When this user has no home folder.
    pub fn of_file(source: &Path, metadata: &fs::Metadata, target: &[&str]) -> Result<Self, String> {
        Self::new(source, &facts(metadata), target)
    }

    /// The record of a copy of a folder. It is the same when the folder has changed.
    ///
    /// # Errors
    /// When this user has no home folder.
    pub fn of_folder(source: &Path, target: &[&str]) -> Result<Self, String> {
        Self::new(source, b"folder", target)
    }

    fn new(source: &Path, facts: &[u8], target: &[&str]) -> Result<Self, String> {
        let mut digest = Sha256::new();
        for part in target {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        digest.update(source.as_os_str().as_encoded_bytes());
        digest.update(facts);
        let folder = credentials::path()?.with_file_name("uploads");
        Ok(Self(folder.join(hex(&digest.finalize()))))
    }

    /// The stored text, if there is one.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn load(&self) -> Result<Option<String>, String> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// Stores a text in place of an earlier one, and removes old records.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn store(&self, text: &str) -> Result<(), String> {
        let failed = |error| self.failed("write", &error);
        let folder = self.0.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > MAX_AGE) {
                // Another command may have removed it.
                drop(fs::remove_file(entry.path()));
            }
        }
        // A rename, so that a killed command leaves the earlier text or this one.
        let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.persist(&self.0).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Removes the record of an upload that has ended.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), String> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed("remove", &error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> String {
        format!("cannot {what} the record of an upload, {}: {error}", self.0.display())
    }
}
