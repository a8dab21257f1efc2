//! Entries of a tar archive, within limits. All but plain entries are refused (T8, docs/security.md).

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use tar::{Entries, Entry, EntryType};

use hotdesk_base::tar_extension::{TarExtension, TarExtensionError};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Most bytes of a long name or of an entry's attributes; names have at most 4,096 bytes.
const MAX_EXTENSION: u64 = 64 * 1024;
/// Most components of a path.
const MAX_DEPTH: usize = 200;

/// Allowed types of entries.
const PLAIN: [EntryType; 4] =
    [EntryType::Directory, EntryType::Regular, EntryType::Continuous, EntryType::Symlink];

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
}

/// An entry to extract.
#[derive(Debug)]
pub struct Member {
    /// Path below the target folder; never empty.
    pub path: PathBuf,
    /// Kind of the entry.
    pub kind: MemberKind,
    /// Target of a link.
    pub target: PathBuf,
    /// Permissions without the set-user bits.
    pub mode: u32,
    /// Modification time in Unix seconds.
    pub modified: i64,
}

/// Error of the archive or of the request body; the latter is passed on unchanged.
pub fn unreadable(error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(error) => {
            Error::invalid(format!("the archive cannot be read: {error}")).code(ErrorCode::BadArchive)
        }
    }
}

/// Error of an extension.
fn extension_error(error: TarExtensionError) -> Error {
    match error {
        TarExtensionError::Unreadable(error) => unreadable(error),
        other @ (TarExtensionError::TooLong
        | TarExtensionError::NoNumber(_)
        | TarExtensionError::Sparse
        | TarExtensionError::TwoSizes) => unsafe_archive(&other.to_string()),
    }
}

/// Returns the next entry and its content; `None` at the end. Skips the archive's root folder and global
/// headers.
///
/// # Errors
/// `Invalid` (`bad_archive`, `unsafe_archive`).
pub fn next<'a, R: Read>(entries: &mut Entries<'a, R>) -> Result<Option<(Member, Entry<'a, R>)>> {
    let mut extension = TarExtension::default();
    for entry in entries.by_ref() {
        let mut entry = entry.map_err(unreadable)?;
        let kind = entry.header().entry_type();
        if extension.read(&mut entry, MAX_EXTENSION).map_err(extension_error)? {
            continue;
        }
        if PLAIN.contains(&kind) {
            if let Some(member) = member(&entry, kind, std::mem::take(&mut extension))? {
                return Ok(Some((member, entry)));
            }
        } else {
            let path = entry.path_bytes();
            let path = String::from_utf8_lossy(&path);
            let what = if kind.is_hard_link() { "a hard link" } else { "no plain file, folder or link" };
            return Err(unsafe_archive(&format!("{path} is {what}")));
        }
    }
    Ok(None)
}

fn member<R: Read>(
    entry: &Entry<'_, R>,
    kind: EntryType,
    mut extension: TarExtension,
) -> Result<Option<Member>> {
    extension.check_size(entry).map_err(extension_error)?;
    let (header, raw) = (entry.header(), extension.take_path(entry));
    // Archives from before POSIX mark folders only by a trailing slash.
    let folder = kind == EntryType::Directory || (kind != EntryType::Symlink && raw.ends_with(b"/"));
    let kind = match (kind == EntryType::Symlink, folder) {
        (true, _) => MemberKind::Link,
        (false, true) => MemberKind::Folder,
        (false, false) => MemberKind::File,
    };
    let path = below(Path::new(&OsString::from_vec(raw)))?;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(Some(Member {
        path,
        kind,
        target: PathBuf::from(OsString::from_vec(extension.take_target(entry))),
        mode: header.mode().map_err(unreadable)? & 0o777,
        modified: i64::try_from(header.mtime().map_err(unreadable)?).unwrap_or(i64::MAX),
    }))
}

/// Checks that a path stays inside the target folder.
fn below(path: &Path) -> Result<PathBuf> {
    let mut plain = PathBuf::new();
    for (depth, part) in path.components().enumerate() {
        match part {
            Component::Normal(name) if depth < MAX_DEPTH && !name.as_encoded_bytes().contains(&0) => {
                plain.push(name);
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(unsafe_archive(&format!("the path {} leads elsewhere", path.display())));
            }
        }
    }
    Ok(plain)
}

fn unsafe_archive(what: &str) -> Error {
    Error::invalid(format!("the archive cannot be extracted safely: {what}")).code(ErrorCode::UnsafeArchive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below() {
        for (path, plain) in [("a/b", "a/b"), ("./a//b/", "a/b"), (".", ""), ("a/./b", "a/b"), ("...", "...")]
        {
            assert_eq!(below(Path::new(path)).unwrap(), Path::new(plain), "{path}");
        }
        for bad in ["/a", "..", "a/../b", "a/..", "/", "../a", "a\0b"] {
            assert!(below(Path::new(bad)).is_err(), "{bad:?}");
        }
        assert!(below(Path::new(&"a/".repeat(MAX_DEPTH + 1))).is_err());
    }
}
