//! The key file: one key, and during a rotation also the previous one, as lines of 64 hex digits.
//!
//! The file is replaced as a whole (rename(2)), so that it never lacks a key that the database needs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::{Error, Result};

/// Most keys in the file: the new and the previous one.
const MAX_KEYS: usize = 2;
/// Longest file in bytes: [`MAX_KEYS`] lines, with room for white space.
const MAX_BYTES: u64 = 1024;

/// File that holds the key of a database.
#[derive(Clone, Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// Names the file, which need not exist.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns the keys, the newest first; `None` when there is no file.
    ///
    /// # Errors
    /// `Internal`, with the path and the remedy, when the file cannot be read, others may read it, or it holds
    /// anything else.
    pub(super) fn read(&self) -> Result<Option<Vec<SealingKey>>> {
        let about = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            about => about.map_err(|error| self.problem(error))?,
        };
        if about.permissions().mode() & 0o077 != 0 {
            return Err(self.problem("other users can read it; run chmod 0600 on it"));
        }
        let malformed = || {
            self.problem(
                "it is not one key of 64 hex digits, as `openssl rand -hex 32` prints it; restore it from a backup",
            )
        };
        if about.len() > MAX_BYTES {
            return Err(malformed());
        }
        let text = fs::read_to_string(&self.path).map_err(|error| self.problem(error))?;
        let keys: Option<Vec<_>> = text.split_whitespace().map(SealingKey::parse).collect();
        let keys = keys.filter(|keys| (1..=MAX_KEYS).contains(&keys.len()));
        keys.map(Some).ok_or_else(malformed)
    }

    /// Creates the file (mode 0600) with a new key unless it exists, and returns its keys.
    ///
    /// # Errors
    /// `Internal`, with the path, when it cannot be written; else those of [`Self::read`].
    pub(super) fn create(&self) -> Result<Vec<SealingKey>> {
        if let Some(keys) = self.read()? {
            return Ok(keys);
        }
        let draft = self.draft(&[&SealingKey::random()]).map_err(|error| self.unwritable(error))?;
        // Unlike a rename, a link never replaces a key that somebody put there meanwhile.
        let linked = fs::hard_link(&draft, &self.path);
        let removed = fs::remove_file(&draft);
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(self.unwritable(error)),
            Ok(()) | Err(_) => {}
        }
        removed.and_then(|()| self.sync_folder()).map_err(|error| self.unwritable(error))?;
        self.read()?.ok_or_else(|| self.missing())
    }

    /// Replaces the keys, the newest first. A crash leaves the previous keys or these.
    ///
    /// # Errors
    /// `Internal`, with the path, when the file cannot be written.
    pub(super) fn replace(&self, keys: &[&SealingKey]) -> Result<()> {
        let draft = self.draft(keys);
        let replaced =
            draft.and_then(|draft| fs::rename(&draft, &self.path)).and_then(|()| self.sync_folder());
        replaced.map_err(|error| self.unwritable(error))
    }

    /// Returns the error of a file that lacks the key with this id.
    pub(super) fn lacks(&self, id: &str) -> Error {
        self.problem(format_args!(
            "it does not hold the key {id} that sealed the secrets of this database; restore the key file that belongs to it"
        ))
    }

    /// Returns the error of a file that is not there although the database needs it.
    pub(super) fn missing(&self) -> Error {
        self.problem(
            "it does not exist, but the secrets of this database are sealed with its key; restore it from a backup, or \
             set secrets.key_file to its place",
        )
    }

    /// Writes the keys to a file beside the key file, and returns its path. One left by a crash is overwritten: only the
    /// holder of the database's write lock, or of the data folder's lock, writes it.
    fn draft(&self, keys: &[&SealingKey]) -> io::Result<PathBuf> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let path = self.path.with_file_name(name);
        let lines: String = keys.iter().map(|key| format!("{}\n", key.digits().reveal())).collect();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        Ok(path)
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn unwritable(&self, error: io::Error) -> Error {
        self.problem(format_args!("it cannot be written: {error}"))
    }

    fn problem(&self, what: impl std::fmt::Display) -> Error {
        Error::failed(format!("key file {}: {what}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_created_once_private_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(&folder.path().join("hotdesk.key"));
        assert!(file.read().unwrap().is_none());
        let ids = |keys: Vec<SealingKey>| keys.iter().map(SealingKey::id).collect::<Vec<_>>();
        let first = file.create().unwrap();
        assert_eq!(ids(file.create().unwrap()), ids(first.clone()));
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        let newer = SealingKey::random();
        file.replace(&[&newer, &first[0]]).unwrap();
        assert_eq!(ids(file.read().unwrap().unwrap()), [newer.id(), first[0].id()]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn an_unusable_key_file_is_named_with_the_remedy_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hotdesk.key");
        let file = KeyFile::new(&path);
        let key = SealingKey::random().digits();
        for text in
            ["", "hunter2", &key.reveal()[1..], &format!("{0} {0} {0}", key.reveal()), &"a".repeat(2000)]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let refused = file.create().unwrap_err().message;
            assert!(refused.contains("hotdesk.key") && refused.contains("restore"), "{refused}");
            assert!(text.is_empty() || !refused.contains(text), "{refused}");
        }
        fs::write(&path, format!(" {}\r\n", key.reveal())).unwrap();
        assert_eq!(file.create().unwrap().len(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.read().unwrap_err().message.contains("chmod 0600"));
    }
}
