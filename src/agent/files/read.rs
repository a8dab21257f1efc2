//! How is a file read out of the computer? Any regular file, by the path forms that clients use (wire.md 9).

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::file_error;
use crate::domain::error::{Error, Result};

/// Longest path in bytes (`PATH_MAX`).
const MAX_PATH: usize = 4096;

/// A file that may be streamed.
#[derive(Debug)]
pub struct Content {
    /// The open file.
    pub file: File,
    /// Its size in bytes when it was opened; no more than that is sent.
    pub length: u64,
    /// Its media type, judged by its name.
    pub media_type: String,
}

/// Opens a file. The path is relative to the home folder, `~/...`, or absolute. `/home/user` means the home folder
/// where the computer has no such file of its own.
///
/// # Errors
/// `Invalid` for a path that cannot be one, or that names no regular file; `NotFound`; `Forbidden`.
pub fn open(home: &Path, path: &str) -> Result<Content> {
    let first = resolve(home, path)?;
    let opened = open_regular(&first, path);
    match (opened, path.strip_prefix("/home/user/")) {
        (Err(error), Some(rest)) if error.kind == crate::domain::error::Kind::NotFound => {
            open_regular(&resolve(home, rest)?, path)
        }
        (opened, _) => opened,
    }
}

fn resolve(home: &Path, path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        return Err(Error::invalid("path must have 1 to 4096 bytes and no NUL").code("INVALID_REQUEST"));
    }
    // Joining an absolute path replaces the home folder.
    Ok(home.join(path.strip_prefix("~/").unwrap_or(path)))
}

fn open_regular(path: &Path, shown: &str) -> Result<Content> {
    // Non-blocking, so that a FIFO or a device opens at once and can be told apart.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let fail = |error: io::Error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        // A socket, or a device without a driver.
        Some(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV) => not_regular(shown),
        _ => file_error(shown, &error),
    };
    let file =
        File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(fail)?;
    let facts = file.metadata().map_err(fail)?;
    if !facts.is_file() {
        return Err(not_regular(shown));
    }
    let media_type = mime_guess::from_path(path).first_or_octet_stream().to_string();
    Ok(Content { file, length: facts.len(), media_type })
}

fn not_regular(shown: &str) -> Error {
    Error::invalid(format!("{shown}: not a regular file")).code("not_a_file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    #[test]
    fn every_form_of_a_path_finds_its_file_and_nothing_else_opens() {
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
            ("~", Kind::NotFound),
            ("none", Kind::NotFound),
            ("sub/a.pdf/x", Kind::NotFound),
            ("/home/user/none", Kind::NotFound),
        ] {
            assert_eq!(open(home.path(), path).unwrap_err().kind, kind, "{path:?}");
        }
    }
}
