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

/// Lets files and folders get the modes that the engine asks for: users of guests read and traverse some of
/// them. Service managers and careful shells start programs with a stricter umask. What others must not
/// read has its own mode or is in a private folder.
pub(crate) fn set_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

/// Makes a folder with mode 0700, with its parents.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically and syncs it: after a crash of the host it holds the old text or the new.
pub(crate) fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    replace(path, text, File::sync_all)?;
    sync_folder(parent)
}

/// Replaces a file atomically: after a crash of this process it holds the old text or the new, after one of
/// the host anything. For what has no meaning after a boot of the host; a sync takes some milliseconds.
pub(crate) fn write_for_this_boot(path: &Path, text: &[u8]) -> io::Result<()> {
    replace(path, text, |_| Ok(()))
}

fn replace(path: &Path, text: &[u8], finish: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text)?;
    finish(&file)?;
    fs::rename(&fresh, path)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_replaced_whole_and_what_an_interrupted_write_left_does_not_matter() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("config.json");
        for write in [write_durably, write_for_this_boot] {
            fs::write(temp.path().join("config.new"), "a longer text that a crash left").unwrap();
            for text in ["one", "the second"] {
                write(&path, text.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
            assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
        write_for_this_boot(&path, b"x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        write_for_this_boot(&temp.path().join("missing/config.json"), b"x").unwrap_err();
    }
}
