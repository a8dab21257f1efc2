//! Private folders, durable writes, and removal of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::EngineResult;
use crate::host::command::host_error;

/// Replaces each path by the canonical one, so that links that change later have no effect.
///
/// # Errors
/// `Failed`, naming the first path that is not there.
pub(crate) fn canonicalize<const N: usize>(step: &'static str, paths: [&mut PathBuf; N]) -> EngineResult<()> {
    for path in paths {
        *path = fs::canonicalize(&*path).map_err(host_error(step, path))?;
    }
    Ok(())
}

/// Lets files and folders get the modes that the engine asks for: users of guests read and traverse some of them. Service managers
/// and careful shells start programs with a stricter umask. What others must not read has its own mode or is in a private folder.
pub(crate) fn set_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

/// Makes a folder with mode 0700, with its parents.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically and syncs it: after a crash it holds the old text or the new.
pub(crate) fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_folder(parent)
}

/// Syncs the entries of a folder.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a file; a missing one counts as removed.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
