//! The version of a file that a write may replace: `If-Match` (RFC 9110 section 13.1.1).
//!
//! The check and the rename that follows it are one step for all requests. A program of the computer may
//! still write between the two; that takes microseconds.

use std::fs::{File, Metadata};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::files::read::entity_tag;
use crate::files::{errno, file_error};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;

/// The value of `If-Match`: `*`, or the entity tags of one or several versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedVersion(String);

impl ExpectedVersion {
    /// The version that a field names.
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// Checks that an entry of a folder is the expected version. A link is the file to which it leads, as for
    /// a reader.
    ///
    /// # Errors
    /// `Conflict` (`file_changed`) for another version, and when there is no file; those of the file system.
    pub fn check(&self, folder: &impl AsFd, name: &str, shown: &str) -> Result<()> {
        // Opened for its metadata alone: that needs no permission and waits for nothing (open(2), O_PATH).
        let opened = match rustix::fs::openat(folder, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(opened) => Some(File::from(opened)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(errno(shown, error)),
        };
        let facts = opened.map(|file| file.metadata()).transpose();
        let facts: Option<Metadata> = facts.map_err(|error| file_error(shown, &error))?;
        let tag = facts.filter(Metadata::is_file).map(|facts| entity_tag(&facts));
        if tag.is_some_and(|tag| self.includes(&tag)) { Ok(()) } else { Err(file_changed(shown)) }
    }

    /// Whether it names this strong entity tag.
    fn includes(&self, tag: &str) -> bool {
        self.0.split(',').map(str::trim).any(|named| named == "*" || named == tag)
    }

    /// The error of a look-up for the write: a missing folder means that the file is gone.
    pub fn explain(error: Error, shown: &str) -> Error {
        if error.kind == Kind::NotFound { file_changed(shown) } else { error }
    }
}

fn file_changed(shown: &str) -> Error {
    Error::conflict(format!("{shown}: it is not the version of If-Match; read it again"))
        .code(ErrorCode::FileChanged)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::read;

    #[test]
    fn only_the_version_that_was_read_matches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        symlink("a", folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let opened = File::open(folder.path()).unwrap();
        let check = |field: &str, name: &str| ExpectedVersion::new(field).check(&opened, name, name);
        let tag = read::open(folder.path(), "a").unwrap().etag;
        for (field, name) in
            [(tag.as_str(), "a"), ("*", "a"), (&format!("\"x\", {tag}"), "a"), (&tag, "link"), ("*", "link")]
        {
            check(field, name).unwrap_or_else(|error| panic!("{field} {name}: {error}"));
        }
        let weak = format!("W/{tag}");
        for (field, name) in [
            ("", "a"),
            ("\"x\"", "a"),
            (weak.as_str(), "a"),
            (tag.trim_matches('"'), "a"),
            ("*", "none"),
            (&tag, "none"),
            ("*", "folder"),
            ("*", "fifo"),
        ] {
            let refused = check(field, name).unwrap_err();
            assert_eq!(refused.code, Some(ErrorCode::FileChanged), "{field} {name}");
        }
        fs::write(&path, "other").unwrap();
        assert!(check(&tag, "a").is_err(), "the same file with another content");
        fs::remove_file(&path).unwrap();
        assert!(check(&tag, "link").is_err(), "a link that leads nowhere");
    }
}
