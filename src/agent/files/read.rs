//! How is a file read out of the computer? Any regular file, by the path forms that clients use (wire.md 9).

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::{file_error, paths};
use hotdesk_domain::error::{Error, Result};

/// A file that may be streamed.
#[derive(Debug)]
pub struct Content {
    /// The open file.
    pub file: File,
    /// Its path, absolute, as it was found.
    pub path: String,
    /// Its size in bytes when it was opened; no more than that is sent.
    pub length: u64,
    /// Its media type, judged by its name.
    pub media_type: String,
    /// What changes when its content does (RFC 9110 section 8.8.3), quoted.
    pub etag: String,
    /// When it was changed, in milliseconds since the Unix epoch.
    pub modified_ms: i64,
}

/// Opens a file. The path is relative to the home folder, `~/...`, or absolute. `/home/user` means the home folder
/// where the computer has no such file of its own.
///
/// # Errors
/// `Invalid` for a path that cannot be one, or that names no regular file; `NotFound`; `Forbidden`.
pub fn open(home: &Path, path: &str) -> Result<Content> {
    paths::look(home, path, |full| open_regular(full, path))
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
    of_file(file, path, shown)
}

/// What is known of an open file, if it is a regular one.
///
/// # Errors
/// `Invalid` when it is not.
pub fn of_file(file: File, path: &Path, shown: &str) -> Result<Content> {
    let facts = file.metadata().map_err(|error| file_error(shown, &error))?;
    if !facts.is_file() {
        return Err(not_regular(shown));
    }
    let media_type = mime_guess::from_path(path).first_or_octet_stream().to_string();
    // Size, time and number: what is replaced has another number, what is written to another time.
    let etag =
        format!("\"{:x}-{:x}.{:x}-{:x}\"", facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ino());
    let modified_ms = facts.mtime().saturating_mul(1000).saturating_add(facts.mtime_nsec() / 1_000_000);
    let path = path.to_string_lossy().into_owned();
    Ok(Content { file, path, length: facts.len(), media_type, etag, modified_ms })
}

fn not_regular(shown: &str) -> Error {
    Error::invalid(format!("{shown}: not a regular file")).code("not_a_file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Kind;

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
            ("~", Kind::Invalid),
            ("none", Kind::NotFound),
            ("sub/a.pdf/x", Kind::NotFound),
            ("/home/user/none", Kind::NotFound),
        ] {
            assert_eq!(open(home.path(), path).unwrap_err().kind, kind, "{path:?}");
        }
    }
}
