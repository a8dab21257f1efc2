//! The file `.env` of the home folder, which sets secrets as shell variables: a link to a file in memory.
//!
//! ```text
//! /root/.env --link--> /run/hotdesk-agent/secrets.env
//! ```
//! The disk has only the link, so that no snapshot, copy or saved disk has the secrets. A boot empties the
//! memory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::statfs;

use super::memory::TMPFS;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Name of the link in the home folder.
const LINK: &str = ".env";
/// Name of the file in the agent's runtime folder.
const FILE: &str = "secrets.env";

/// Held while the file is replaced, because all writers use one draft.
static WRITER: Mutex<()> = Mutex::new(());

/// Place of the secrets of a computer.
#[derive(Clone, Debug)]
pub struct EnvFile {
    file: PathBuf,
    link: PathBuf,
}

impl EnvFile {
    /// Names the file in a runtime folder, and its link in a home folder. Neither need exist.
    pub fn new(runtime_dir: &Path, home: &Path) -> Self {
        Self { file: runtime_dir.join(FILE), link: home.join(LINK) }
    }

    /// The file in memory, which the link names.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Replaces the text (mode 0600), and makes the link. Returns the path of the link. May block.
    ///
    /// # Errors
    /// `Conflict` (`env_file_exists`) when something else is at the place of the link; `Internal` when the
    /// runtime folder is not in memory, or the file or link cannot be written. The previous text stays then.
    pub fn write(&self, text: &[u8]) -> Result<PathBuf> {
        if !is_in_memory(&self.file) {
            return Err(Error::failed(
                "The secrets were not written, because the agent's runtime folder is on a disk: start the agent with \
                 --runtime-dir on a tmpfs, such as /run",
            ));
        }
        let _turn = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
        let is_linked = self.is_linked()?;
        let draft = self.file.with_extension("new");
        let written = write_private(&draft, text).and_then(|()| fs::rename(&draft, &self.file));
        written.map_err(|error| unwritable(&self.file, &error))?;
        if !is_linked {
            symlink(&self.file, &self.link).map_err(|error| unwritable(&self.link, &error))?;
        }
        Ok(self.link.clone())
    }

    /// Removes the text. A missing file is not an error.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the link exists.
    fn is_linked(&self) -> Result<bool> {
        match fs::read_link(&self.link) {
            Ok(target) if target == self.file => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Ok(_) | Err(_) => Err(Error::conflict(format!(
                "{} of the computer is another file, which is kept: move it away to get the secrets there",
                self.link.display()
            ))
            .code(ErrorCode::EnvFileExists)),
        }
    }
}

/// Whether the folder of a file is on a tmpfs.
fn is_in_memory(file: &Path) -> bool {
    let folder = file.parent().unwrap_or(file);
    statfs(folder).is_ok_and(|facts| u64::try_from(facts.f_type) == Ok(TMPFS))
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("The secrets were not written: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A home folder on the disk, and a runtime folder in memory.
    fn folders() -> [tempfile::TempDir; 2] {
        [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()]
    }

    #[test]
    fn the_secrets_are_in_memory_and_the_disk_has_a_link() {
        let [home, memory] = folders();
        let file = EnvFile::new(memory.path(), home.path());
        for text in ["KEY='hunter2'\n", "", "OTHER='x'\n"] {
            assert_eq!(file.write(text.as_bytes()).unwrap(), home.path().join(".env"));
            assert_eq!(fs::read_to_string(home.path().join(".env")).unwrap(), text);
            let facts = fs::metadata(&file.file).unwrap();
            assert_eq!(facts.permissions().mode() & 0o777, 0o600);
        }
        assert!(fs::symlink_metadata(home.path().join(".env")).unwrap().is_symlink());
        assert_eq!(fs::read_dir(memory.path()).unwrap().count(), 1, "no draft is left");
        file.remove().unwrap();
        file.remove().unwrap();
        assert!(fs::read(home.path().join(".env")).is_err());
        // The link of an earlier boot.
        file.write(b"A='b'\n").unwrap();
        assert_eq!(fs::read(home.path().join(".env")).unwrap(), b"A='b'\n");
    }

    #[test]
    fn a_file_of_the_user_is_kept() {
        let [home, memory] = folders();
        let (file, link) = (EnvFile::new(memory.path(), home.path()), home.path().join(".env"));
        fs::write(&link, "MINE=1\n").unwrap();
        assert_eq!(file.write(b"x").unwrap_err().code, Some(ErrorCode::EnvFileExists));
        assert_eq!(fs::read_to_string(&link).unwrap(), "MINE=1\n");
        fs::remove_file(&link).unwrap();
        symlink("/elsewhere", &link).unwrap();
        assert_eq!(file.write(b"x").unwrap_err().code, Some(ErrorCode::EnvFileExists));
        assert!(fs::read_dir(memory.path()).unwrap().next().is_none(), "nothing was written");
    }

    #[test]
    fn secrets_never_go_to_a_disk() {
        assert!(is_in_memory(Path::new("/dev/shm/file")));
        let proc = EnvFile::new(Path::new("/proc"), Path::new("/proc"));
        let refused = proc.write(b"KEY='hunter2'").unwrap_err();
        assert!(refused.message.contains("--runtime-dir") && !refused.message.contains("hunter2"));
    }
}
