//! Which folders are the desktop and the downloads? The specification names them below `/home/user`; programs know them
//! below their home folder. On most computers one is a link to the other.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::paths::ALIAS;

/// Their names.
pub(super) const NAMES: [&str; 2] = ["Desktop", "Downloads"];

/// A folder that is to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path under which its files are told.
    pub(super) shown: PathBuf,
    /// Its path without links.
    pub(super) real: PathBuf,
    /// Device and inode.
    pub(super) id: (u64, u64),
}

/// The folders that are there now, each once. Where there is nothing at the specification's path, the one in the home
/// folder is told under it, as the files' routes understand it too.
pub(super) fn places(home: &Path) -> Vec<Place> {
    places_below(Path::new(ALIAS), home)
}

fn places_below(alias: &Path, home: &Path) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for name in NAMES {
        let (public, own) = (alias.join(name), home.join(name));
        let is_there = public.symlink_metadata().is_ok();
        let shown_own = if is_there { own.clone() } else { public.clone() };
        for (path, shown) in [(&public, public.clone()), (&own, shown_own)] {
            let Ok(real) = path.canonicalize() else { continue };
            let Ok(facts) = real.metadata() else { continue };
            let id = (facts.dev(), facts.ino());
            if facts.is_dir() && !places.iter().any(|place| place.id == id) {
                places.push(Place { shown, real, id });
            }
        }
    }
    places
}

/// The folders in which they, or links to them, come and go.
pub(super) fn parents(home: &Path, places: &[Place]) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    let known =
        [Path::new(ALIAS), home].into_iter().chain(places.iter().filter_map(|place| place.real.parent()));
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
    fn one_folder_under_two_names_is_one_and_told_by_the_specifications() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (alias, home) = (root.join("home/user"), root.join("root"));
        std::fs::create_dir_all(home.join("Desktop")).unwrap();
        std::fs::create_dir_all(home.join("Downloads")).unwrap();
        let told = || {
            let places = places_below(&alias, &home);
            let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            places.iter().map(|place| (relative(&place.shown), relative(&place.real))).collect::<Vec<_>>()
        };
        let pair = |shown: &str, real: &str| (shown.to_owned(), real.to_owned());
        let linked =
            [pair("home/user/Desktop", "root/Desktop"), pair("home/user/Downloads", "root/Downloads")];
        assert_eq!(told(), linked, "nothing at the public names");
        std::fs::create_dir_all(&alias).unwrap();
        std::os::unix::fs::symlink(home.join("Desktop"), alias.join("Desktop")).unwrap();
        std::os::unix::fs::symlink(home.join("Downloads"), alias.join("Downloads")).unwrap();
        assert_eq!(told(), linked, "links at the public names");
        std::fs::remove_file(alias.join("Desktop")).unwrap();
        std::fs::create_dir(alias.join("Desktop")).unwrap();
        std::fs::remove_dir(home.join("Downloads")).unwrap();
        let both = [pair("home/user/Desktop", "home/user/Desktop"), pair("root/Desktop", "root/Desktop")];
        assert_eq!(told(), both, "two folders; and one that is not there");
        assert!(parents(&home, &places_below(&alias, &home)).contains(&home));
    }
}
