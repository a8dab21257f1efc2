//! Resolution of client paths, and link-free access to the folder of a changed entry (docs/api/files.md).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::files::{errno, not_a_folder};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::{FileName, MAX_PATH};

/// Public name of the home folder, used unless the computer has such a folder of its own.
pub const ALIAS: &str = "/home/user";
/// Flags to open a folder.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags to open an entry without following, reading or changing it.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Beginning of the paths of hotdesk's own files in a computer, which hold the agent's token among others.
const RESERVED: &str = "/run/hotdesk";

/// Whether a path without links belongs to hotdesk itself and is never served.
pub fn is_reserved(real: &Path) -> bool {
    real.as_os_str().as_encoded_bytes().starts_with(RESERVED.as_bytes())
}

/// Makes a client's path absolute: relative to the home folder, `~`, `~/...`, or absolute.
///
/// # Errors
/// `Invalid` for an empty or too long path or a NUL character.
pub fn absolute(home: &Path, path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        return Err(
            Error::invalid("path must have 1 to 4096 bytes and no NUL").code(ErrorCode::InvalidRequest)
        );
    }
    if path == "~" {
        return Ok(home.to_owned());
    }
    // Joining an absolute path replaces the home folder.
    Ok(home.join(path.strip_prefix("~/").unwrap_or(path)))
}

/// Removes trailing slashes, which people write after folders. `/` is unchanged.
pub fn without_slash(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { path } else { trimmed }
}

/// Alternative of a path below `/home/user`: the same path below the home folder.
fn alias(home: &Path, path: &str) -> Option<PathBuf> {
    let rest = path.strip_prefix(ALIAS)?;
    if rest.is_empty() {
        return Some(home.to_owned());
    }
    Some(home.join(rest.strip_prefix('/')?))
}

/// Calls `look` with the absolute path, and with its alternative when the first is not found. Links are
/// followed.
///
/// # Errors
/// Those of `look`; `Invalid` for a malformed path, and for hotdesk's own files (`protected_path`).
pub fn resolve<T>(home: &Path, path: &str, look: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let look = |full: &Path| {
        // Who can change links between this check and `look` is root in the computer and needs no path to read a file.
        if full.canonicalize().is_ok_and(|real| is_reserved(&real)) {
            let what = format!("{path} is one of hotdesk's own files, which are not served");
            return Err(Error::invalid(what).code(ErrorCode::ProtectedPath));
        }
        look(full)
    };
    let first = look(&absolute(home, path)?);
    match (first, alias(home, path)) {
        (Err(error), Some(other)) if error.kind == Kind::NotFound => look(&other),
        (first, _) => first,
    }
}

/// A name in an open folder: an entry to create, replace, move or remove.
#[derive(Debug)]
pub struct EntryHandle {
    /// Folder.
    pub folder: OwnedFd,
    /// Name in the folder.
    pub name: String,
    /// Absolute path of the entry.
    pub path: String,
}

/// Handling of missing parent folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// They must exist.
    Required,
    /// They are created.
    Create,
}

impl EntryHandle {
    /// Opens the folder of an existing entry.
    ///
    /// # Errors
    /// `Invalid` (`protected_path`) for `/` and the home folder; `Conflict` (`path_through_link`);
    /// `NotFound`.
    pub fn for_existing(home: &Path, path: &str) -> Result<Self> {
        Self::find(home, path, Parents::Required)
    }

    /// Opens the folder for a new entry, whose name must be a plain one (T7, docs/security.md).
    ///
    /// # Errors
    /// Those of [`EntryHandle::for_existing`]; `Invalid` for the name.
    pub fn for_new(home: &Path, path: &str, parents: Parents) -> Result<Self> {
        let last = path.rsplit('/').next().unwrap_or_default();
        FileName::parse(last)?;
        Self::find(home, path, parents)
    }

    fn find(home: &Path, path: &str, parents: Parents) -> Result<Self> {
        let full = absolute(home, path)?;
        let Some(other) = alias(home, path) else { return Self::at(home, &full, path, parents) };
        // Nothing is created below the public name unless it exists.
        match Self::at(home, &full, path, Parents::Required) {
            Err(error) if error.kind == Kind::NotFound || error.code == Some(ErrorCode::PathThroughLink) => {
                Self::at(home, &other, path, parents)
            }
            found => found,
        }
    }

    fn at(home: &Path, full: &Path, shown: &str, parents: Parents) -> Result<Self> {
        let full = normal(full);
        let protected = || {
            let what = "path names the root or the home folder itself";
            Error::invalid(what).code(ErrorCode::ProtectedPath)
        };
        if full == Path::new(ALIAS) {
            return Err(protected());
        }
        let (base, inside) = match full.strip_prefix(normal(home)) {
            Ok(inside) => (home, inside),
            Err(_) => (Path::new("/"), full.strip_prefix("/").unwrap_or(&full)),
        };
        let (Some(name), Some(parent)) = (inside.file_name(), inside.parent()) else {
            return Err(protected());
        };
        let base = rustix::fs::open(base, FOLDER, Mode::empty()).map_err(|error| errno(shown, error))?;
        let folder = open_inside(base, parent, parents, shown)?;
        let name = name.to_string_lossy().into_owned();
        Ok(Self { folder, name, path: full.to_string_lossy().into_owned() })
    }
}

/// Opens a folder below another one without following links.
///
/// # Errors
/// `NotFound` unless folders are to be created; `Conflict` (`path_through_link`).
pub fn open_inside(mut folder: OwnedFd, inside: &Path, parents: Parents, shown: &str) -> Result<OwnedFd> {
    for part in inside.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(parent_error(shown, Errno::XDEV));
            }
        };
        let entry = match open_path_only(&folder, name) {
            Err(Errno::NOENT) if parents == Parents::Create => {
                FileName::parse(&name.to_string_lossy())?;
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                    // It was created concurrently.
                    Ok(()) | Err(Errno::EXIST) => open_path_only(&folder, name),
                    Err(error) => Err(error),
                }
            }
            other => other,
        };
        folder = entry.map_err(|error| parent_error(shown, error))?;
    }
    reopen(&folder).map_err(|error| parent_error(shown, error))
}

/// Opens a folder by its name in another one, where `name` is one component of a path. Used wherever
/// something is changed: gVisor has no `openat2`, and follows a link in spite of `O_NOFOLLOW` when
/// `O_DIRECTORY` is given too. So the entry is first opened with `O_PATH`, then checked, and then opened
/// through that descriptor.
///
/// # Errors
/// `LOOP` for a link, `NOTDIR` for another kind of entry; those of the file system.
pub fn enter(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    reopen(&open_path_only(folder, name)?)
}

/// Opens a folder with `O_PATH` by its name in another one, which need not be readable.
fn open_path_only(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let entry = rustix::fs::openat(folder, name, PATH_ONLY, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&entry)?.st_mode);
    if kind == FileType::Directory {
        return Ok(entry);
    }
    Err(if kind == FileType::Symlink { Errno::LOOP } else { Errno::NOTDIR })
}

/// Opens the folder of an `O_PATH` descriptor for reading and syncing; no name is resolved that could have
/// changed.
fn reopen(entry: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(entry, ".", FOLDER, Mode::empty())
}

fn parent_error(shown: &str, error: Errno) -> Error {
    match error {
        Errno::LOOP => {
            let what = format!("{shown}: a parent folder is a symbolic link; use a path without links");
            Error::conflict(what).code(ErrorCode::PathThroughLink)
        }
        Errno::NOTDIR => not_a_folder(shown),
        other => errno(shown, other),
    }
}

/// Removes `.` and `..` from a path; correct only because no link on it is followed later.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn changed_entries_are_reached_without_links_and_roots_are_protected() {
        let holder = tempfile::tempdir().unwrap();
        let home = holder.path().join("home");
        std::fs::create_dir_all(home.join("sub/deep")).unwrap();
        symlink("sub", home.join("link")).unwrap();
        std::fs::write(home.join("file"), b"").unwrap();
        let inside = home.join("sub/x").to_string_lossy().into_owned();
        for path in ["sub/x", "~/sub/x", "./sub/../sub/./x", "/home/user/sub/x", &inside] {
            let entry_handle = EntryHandle::for_new(&home, path, Parents::Required).unwrap();
            assert_eq!(
                (entry_handle.name.as_str(), entry_handle.path.as_str()),
                ("x", inside.as_str()),
                "{path}"
            );
        }
        let protected = ["/", "~", ".", "sub/..", "/..", &home.to_string_lossy(), "/home/user/", "//"];
        for path in protected {
            let error = EntryHandle::for_existing(&home, path).unwrap_err();
            assert_eq!((error.kind, error.code), (Kind::Invalid, Some(ErrorCode::ProtectedPath)), "{path}");
        }
        for path in ["link/x", "link/deep/x", "/home/user/link/x"] {
            let error = EntryHandle::for_existing(&home, path).unwrap_err();
            assert_eq!(
                (error.kind, error.code),
                (Kind::Conflict, Some(ErrorCode::PathThroughLink)),
                "{path}"
            );
        }
        for (path, kind) in [
            ("", Kind::Invalid),
            ("a\0b", Kind::Invalid),
            (&"x/".repeat(3000), Kind::Invalid),
            ("file/x", Kind::Invalid),
            ("none/x", Kind::NotFound),
            ("/proc/self/root/none/x", Kind::Conflict),
        ] {
            assert_eq!(EntryHandle::for_existing(&home, path).unwrap_err().kind, kind, "{path:?}");
        }
        for path in ["sub/", "sub/..", "sub/a\u{202e}b", "sub/ x", "sub/a\nb", "sub/a\\b"] {
            assert_eq!(
                EntryHandle::for_new(&home, path, Parents::Create).unwrap_err().kind,
                Kind::Invalid,
                "{path:?}"
            );
        }
        assert!(EntryHandle::for_new(&home, "new/b\nad/x", Parents::Create).is_err());
        let made = EntryHandle::for_new(&home, "some/new/folder/x", Parents::Create).unwrap();
        assert!(made.path.ends_with("/some/new/folder/x") && home.join("some/new/folder").is_dir());
    }
}
