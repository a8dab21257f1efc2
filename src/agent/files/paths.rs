//! Which file does a path mean? Forms as in wire.md 9, and for what is changed: in which folder, reached without links.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use super::{errno, not_a_folder};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::filename::{FileName, MAX_PATH};

/// A folder of the public names that means the home folder where the computer has nothing of its own there.
pub const ALIAS: &str = "/home/user";
/// How folders are opened.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How a name is held without following it, reading it or changing it.
const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A path as the client wrote it, made absolute: relative to the home folder, `~`, `~/...`, or absolute.
///
/// # Errors
/// `Invalid` when it cannot be a path.
pub fn absolute(home: &Path, path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        return Err(Error::invalid("path must have 1 to 4096 bytes and no NUL").code("INVALID_REQUEST"));
    }
    if path == "~" {
        return Ok(home.to_owned());
    }
    // Joining an absolute path replaces the home folder.
    Ok(home.join(path.strip_prefix("~/").unwrap_or(path)))
}

/// A path without the slashes at its end: `a/` is how people write folders. `/` stays what it is.
pub fn without_slash(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { path } else { trimmed }
}

/// What a path below `/home/user` means where there is no such thing: the same below the home folder.
fn alias(home: &Path, path: &str) -> Option<PathBuf> {
    let rest = path.strip_prefix(ALIAS)?;
    if rest.is_empty() {
        return Some(home.to_owned());
    }
    Some(home.join(rest.strip_prefix('/')?))
}

/// Looks at what a path means. Links are followed.
///
/// # Errors
/// Those of `look`; `Invalid` when it cannot be a path.
pub fn look<T>(home: &Path, path: &str, look: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let first = look(&absolute(home, path)?);
    match (first, alias(home, path)) {
        (Err(error), Some(other)) if error.kind == Kind::NotFound => look(&other),
        (first, _) => first,
    }
}

/// A name in an open folder: what may be made, replaced, moved or removed.
#[derive(Debug)]
pub struct Spot {
    /// The folder.
    pub folder: OwnedFd,
    /// The name in it.
    pub name: String,
    /// Both as a path, absolute.
    pub path: String,
}

/// What is done about folders on the way that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// They must be there.
    Needed,
    /// They are made.
    Made,
}

impl Spot {
    /// Finds the folder of something that is there.
    ///
    /// # Errors
    /// `Invalid` for `/` and the home folder; `Conflict` (`path_through_link`); `NotFound`.
    pub fn existing(home: &Path, path: &str) -> Result<Self> {
        Self::find(home, path, Parents::Needed)
    }

    /// Finds the folder for something new, whose name must be a plain one (threats.md T7).
    ///
    /// # Errors
    /// As [`Spot::existing`]; `Invalid` for the name.
    pub fn fresh(home: &Path, path: &str, parents: Parents) -> Result<Self> {
        let last = path.rsplit('/').next().unwrap_or_default();
        FileName::parse(last)?;
        Self::find(home, path, parents)
    }

    fn find(home: &Path, path: &str, parents: Parents) -> Result<Self> {
        let full = absolute(home, path)?;
        let Some(other) = alias(home, path) else { return Self::at(home, &full, path, parents) };
        // Nothing is made at the public name unless it is there.
        match Self::at(home, &full, path, Parents::Needed) {
            Err(error) if error.kind == Kind::NotFound || error.code == Some(THROUGH_LINK) => {
                Self::at(home, &other, path, parents)
            }
            found => found,
        }
    }

    fn at(home: &Path, full: &Path, shown: &str, parents: Parents) -> Result<Self> {
        let full = normal(full);
        let protected = || {
            let what = "path names the root or the home folder itself";
            Error::invalid(what).code("protected_path")
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

const THROUGH_LINK: &str = "path_through_link";

/// Opens a folder below another one, following no link on the way.
///
/// # Errors
/// `NotFound` unless folders are to be made; `Conflict` (`path_through_link`).
pub fn open_inside(mut folder: OwnedFd, inside: &Path, parents: Parents, shown: &str) -> Result<OwnedFd> {
    for part in inside.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(way_error(shown, Errno::XDEV));
            }
        };
        let held = match hold(&folder, name) {
            Err(Errno::NOENT) if parents == Parents::Made => {
                FileName::parse(&name.to_string_lossy())?;
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                    // Somebody else made it meanwhile.
                    Ok(()) | Err(Errno::EXIST) => hold(&folder, name),
                    Err(error) => Err(error),
                }
            }
            other => other,
        };
        folder = held.map_err(|error| way_error(shown, error))?;
    }
    reopen(&folder).map_err(|error| way_error(shown, error))
}

/// Opens a folder in another one by its name there, which is one part of a path. This is how a folder is entered wherever
/// something is changed: gVisor has no `openat2`, and follows a link where `O_NOFOLLOW` and `O_DIRECTORY` are asked for
/// together. So what has the name is held first, then looked at, and opened only through what is held.
///
/// # Errors
/// `LOOP` for a link, `NOTDIR` for anything else that is no folder, and what the file system says.
pub fn enter(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    reopen(&hold(folder, name)?)
}

/// Holds a folder by its name in another one, for which that need not be readable.
fn hold(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let held = rustix::fs::openat(folder, name, HELD, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode);
    if kind == FileType::Directory {
        return Ok(held);
    }
    Err(if kind == FileType::Symlink { Errno::LOOP } else { Errno::NOTDIR })
}

/// The folder that is held, to be read and brought to the disk: what leads there has no name that could change.
fn reopen(held: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(held, ".", FOLDER, Mode::empty())
}

fn way_error(shown: &str, error: Errno) -> Error {
    match error {
        Errno::LOOP => {
            let what = format!("{shown}: a folder on the way is a symbolic link; give the path without it");
            Error::conflict(what).code(THROUGH_LINK)
        }
        Errno::NOTDIR => not_a_folder(shown),
        other => errno(shown, other),
    }
}

/// A path without `.` and `..`; right only because no link is followed on it later.
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
    fn what_is_changed_is_reached_without_links_and_never_the_root_or_the_home_folder() {
        let holder = tempfile::tempdir().unwrap();
        let home = holder.path().join("home");
        std::fs::create_dir_all(home.join("sub/deep")).unwrap();
        symlink("sub", home.join("link")).unwrap();
        std::fs::write(home.join("file"), b"").unwrap();
        let inside = home.join("sub/x").to_string_lossy().into_owned();
        for path in ["sub/x", "~/sub/x", "./sub/../sub/./x", "/home/user/sub/x", &inside] {
            let spot = Spot::fresh(&home, path, Parents::Needed).unwrap();
            assert_eq!((spot.name.as_str(), spot.path.as_str()), ("x", inside.as_str()), "{path}");
        }
        let protected = ["/", "~", ".", "sub/..", "/..", &home.to_string_lossy(), "/home/user/", "//"];
        for path in protected {
            let error = Spot::existing(&home, path).unwrap_err();
            assert_eq!((error.kind, error.code), (Kind::Invalid, Some("protected_path")), "{path}");
        }
        for path in ["link/x", "link/deep/x", "/home/user/link/x"] {
            let error = Spot::existing(&home, path).unwrap_err();
            assert_eq!((error.kind, error.code), (Kind::Conflict, Some(THROUGH_LINK)), "{path}");
        }
        for (path, kind) in [
            ("", Kind::Invalid),
            ("a\0b", Kind::Invalid),
            (&"x/".repeat(3000), Kind::Invalid),
            ("file/x", Kind::Invalid),
            ("none/x", Kind::NotFound),
            ("/proc/self/root/none/x", Kind::Conflict),
        ] {
            assert_eq!(Spot::existing(&home, path).unwrap_err().kind, kind, "{path:?}");
        }
        for path in ["sub/", "sub/..", "sub/a\u{202e}b", "sub/ x", "sub/a\nb", "sub/a\\b"] {
            assert_eq!(Spot::fresh(&home, path, Parents::Made).unwrap_err().kind, Kind::Invalid, "{path:?}");
        }
        assert!(Spot::fresh(&home, "new/b\nad/x", Parents::Made).is_err());
        let made = Spot::fresh(&home, "some/new/folder/x", Parents::Made).unwrap();
        assert!(made.path.ends_with("/some/new/folder/x") && home.join("some/new/folder").is_dir());
    }
}
