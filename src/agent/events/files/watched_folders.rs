//! Watched folders: the desktop and the downloads.
//!
//! The API names them below `/home/user` (docs/api/events.md); programs use those below their home folder. On
//! most computers one is a link to the other.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::paths::ALIAS;

/// Names of the folders.
pub(super) const NAMES: [&str; 2] = ["Desktop", "Downloads"];

/// A folder to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedFolder {
    /// Path in events.
    pub(super) shown: PathBuf,
    /// Path without links.
    pub(super) real: PathBuf,
    /// Device and inode.
    pub(super) id: (u64, u64),
}

/// Returns the existing folders, each once. When the path of the API does not exist, the folder in
/// the home folder has that path in events, as in the file routes.
pub(super) fn find_all(home: &Path) -> Vec<WatchedFolder> {
    find_below(Path::new(ALIAS), home)
}

fn find_below(alias: &Path, home: &Path) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for name in NAMES {
        let (public, own) = (alias.join(name), home.join(name));
        let is_there = public.symlink_metadata().is_ok();
        let shown_own = if is_there { own.clone() } else { public.clone() };
        for (path, shown) in [(&public, public.clone()), (&own, shown_own)] {
            let Ok(real) = path.canonicalize() else { continue };
            let Ok(facts) = real.metadata() else { continue };
            let id = (facts.dev(), facts.ino());
            if facts.is_dir() && !folders.iter().any(|place| place.id == id) {
                folders.push(WatchedFolder { shown, real, id });
            }
        }
    }
    folders
}

/// Returns the parent folders, in which the folders or links to them appear and vanish.
pub(super) fn parents(home: &Path, folders: &[WatchedFolder]) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    let known =
        [Path::new(ALIAS), home].into_iter().chain(folders.iter().filter_map(|place| place.real.parent()));
    for parent in known {
        if let Ok(parent) = parent.canonicalize()
            && parent.is_dir()
            && !parents.contains(&parent)
        {
            parents.push(parent);
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_folders_are_one_with_the_path_of_the_api() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (alias, home) = (root.join("home/user"), root.join("root"));
        std::fs::create_dir_all(home.join("Desktop")).unwrap();
        std::fs::create_dir_all(home.join("Downloads")).unwrap();
        let paths = || {
            let folders = find_below(&alias, &home);
            let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            folders.iter().map(|folder| (relative(&folder.shown), relative(&folder.real))).collect::<Vec<_>>()
        };
        let pair = |shown: &str, real: &str| (shown.to_owned(), real.to_owned());
        let linked =
            [pair("home/user/Desktop", "root/Desktop"), pair("home/user/Downloads", "root/Downloads")];
        assert_eq!(paths(), linked, "nothing at the public names");
        std::fs::create_dir_all(&alias).unwrap();
        std::os::unix::fs::symlink(home.join("Desktop"), alias.join("Desktop")).unwrap();
        std::os::unix::fs::symlink(home.join("Downloads"), alias.join("Downloads")).unwrap();
        assert_eq!(paths(), linked, "links at the public names");
        std::fs::remove_file(alias.join("Desktop")).unwrap();
        std::fs::create_dir(alias.join("Desktop")).unwrap();
        std::fs::remove_dir(home.join("Downloads")).unwrap();
        let both = [pair("home/user/Desktop", "home/user/Desktop"), pair("root/Desktop", "root/Desktop")];
        assert_eq!(paths(), both, "two folders; and one that is not there");
        assert!(parents(&home, &find_below(&alias, &home)).contains(&home));
    }
}
