//! Download of any regular file, with the path forms of the API (docs/api/files.md).

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::files::{file_error, paths};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// An open file with its metadata.
#[derive(Debug)]
pub struct OpenFile {
    /// The open file.
    pub file: File,
    /// Absolute path.
    pub path: String,
    /// Size in bytes when the file was opened; no more is sent.
    pub length: u64,
    /// Media type, derived from the name.
    pub media_type: String,
    /// Strong entity tag (RFC 9110 section 8.8.3), quoted.
    pub etag: String,
    /// Time of the last change.
    pub modified_at: UnixMillis,
}

/// Opens a file. The path is relative to the home folder, `~/...`, or absolute. `/home/user` is the home
/// folder if the computer has no such file of its own.
///
/// # Errors
/// `Invalid` for a malformed path or (`not_a_file`) another kind of file; `NotFound`; `Forbidden`.
pub fn open(home: &Path, path: &str) -> Result<OpenFile> {
    paths::resolve(home, path, |full| open_regular(full, path))
}

/// Opens a file as [`open`] does, if it is in the home folder after all links were followed.
///
/// # Errors
/// Those of [`open`]; `Forbidden` (`path_through_link`) for a file elsewhere.
pub fn open_within_home(home: &Path, path: &str) -> Result<OpenFile> {
    let fail = |error: io::Error| file_error(path, &error);
    let opened = open(home, path)?;
    // The kernel's path of the open file: no link can change between this look and the read (proc_pid_fd(5)).
    let real = fs::read_link(format!("/proc/self/fd/{}", opened.file.as_raw_fd())).map_err(fail)?;
    let roots = [home.canonicalize().map_err(fail)?, PathBuf::from(paths::ALIAS)];
    if roots.iter().any(|root| real.starts_with(root)) {
        return Ok(opened);
    }
    Err(Error::forbidden(format!("{path}: a symbolic link leads out of the home folder"))
        .code(ErrorCode::PathThroughLink))
}

fn open_regular(path: &Path, shown: &str) -> Result<OpenFile> {
    // Non-blocking, so that a FIFO or a device opens at once and can be recognized.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let fail = |error: io::Error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        // A socket, or a device without a driver.
        Some(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV) => not_regular(shown),
        _ => file_error(shown, &error),
    };
    let file =
        File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(fail)?;
    describe_file(file, path, shown)
}

/// Returns an open file with its metadata.
///
/// # Errors
/// `Invalid` (`not_a_file`) when it is not a regular file.
pub fn describe_file(file: File, path: &Path, shown: &str) -> Result<OpenFile> {
    let facts = file.metadata().map_err(|error| file_error(shown, &error))?;
    if !facts.is_file() {
        return Err(not_regular(shown));
    }
    let media_type = mime_guess::from_path(path).first_or_octet_stream().to_string();
    let etag = entity_tag(&facts);
    let modified_at = UnixMillis::from_seconds(facts.mtime(), facts.mtime_nsec());
    let path = path.to_string_lossy().into_owned();
    Ok(OpenFile { file, path, length: facts.len(), media_type, etag, modified_at })
}

/// Returns the strong entity tag of a file, quoted: size, modification time and inode. A replaced file has
/// another inode, a changed one another time.
pub fn entity_tag(facts: &Metadata) -> String {
    format!("\"{:x}-{:x}.{:x}-{:x}\"", facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ino())
}

fn not_regular(shown: &str) -> Error {
    Error::invalid(format!("{shown}: not a regular file")).code(ErrorCode::NotAFile)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use hotdesk_domain::error::Kind;

    #[test]
    fn only_files_of_the_home_folder_are_opened_within_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(home.join("sub")).unwrap();
        for file in ["secret", "home/sub/file", "homework"] {
            fs::write(folder.path().join(file), b"x").unwrap();
        }
        symlink("sub/file", home.join("inside")).unwrap();
        symlink("../secret", home.join("outside")).unwrap();
        symlink("../homework", home.join("beside")).unwrap();
        symlink(folder.path(), home.join("folder")).unwrap();
        for path in ["sub/file", "inside", "folder/home/sub/file"] {
            assert!(open_within_home(&home, path).is_ok(), "{path}");
        }
        for path in ["outside", "beside", "folder/secret", "../secret"] {
            assert!(open(&home, path).is_ok(), "{path}");
            let refused = open_within_home(&home, path).unwrap_err();
            assert_eq!(refused.kind, Kind::Forbidden, "{path}");
            assert_eq!(refused.code, Some(ErrorCode::PathThroughLink), "{path}");
        }
    }

    #[test]
    fn every_path_form_opens_regular_files_only() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("sub")).unwrap();
        std::fs::write(home.path().join("sub/a.pdf"), b"12345").unwrap();
        let fifo = home.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
        let absolute = home.path().join("sub/a.pdf").to_string_lossy().into_owned();
        for path in ["sub/a.pdf", "~/sub/a.pdf", &absolute, "/home/user/sub/a.pdf", "./sub/../sub/a.pdf"] {
            let content = open(home.path(), path).unwrap();
            assert_eq!((content.length, content.media_type.as_str()), (5, "application/pdf"), "{path}");
        }
        for (path, kind) in [
            ("", Kind::Invalid),
            ("a\0b", Kind::Invalid),
            (&"x".repeat(5000), Kind::Invalid),
            (&"x".repeat(300), Kind::Invalid),
            ("sub", Kind::Invalid),
            ("fifo", Kind::Invalid),
            ("socket", Kind::Invalid),
            ("/dev/zero", Kind::Invalid),
            ("~", Kind::Invalid),
            ("none", Kind::NotFound),
            ("sub/a.pdf/x", Kind::NotFound),
            ("/home/user/none", Kind::NotFound),
        ] {
            assert_eq!(open(home.path(), path).unwrap_err().kind, kind, "{path:?}");
        }
    }
}
