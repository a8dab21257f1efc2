//! Paths of one layer of an image, in bounded memory: their hashes with a random key. Two paths of a crafted image may have the
//! same hash only by chance.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;

/// Most paths, with the folders above: twice the most files of an image (16 MB). More exist only through links to folders.
const MAX_PATHS: usize = 2_000_000;

/// The paths of a layer and the folders above them.
#[derive(Debug, Default)]
pub struct OwnPaths {
    hashes: HashSet<u64>,
    key: RandomState,
}

impl OwnPaths {
    /// Adds a path and the folders above.
    ///
    /// # Errors
    /// Beyond [`MAX_PATHS`].
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        for ancestor in path.ancestors() {
            // Those above it were added with it.
            if !self.hashes.insert(self.key.hash_one(ancestor)) {
                break;
            }
        }
        if self.hashes.len() > MAX_PATHS {
            return Err(io::Error::other(format!("its layer has more than {MAX_PATHS} paths")));
        }
        Ok(())
    }

    /// Whether a path was added, or is above one that was.
    pub fn contains(&self, path: &Path) -> bool {
        self.hashes.contains(&self.key.hash_one(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t8_a_million_paths_of_four_kilobytes_take_no_memory_of_their_length() {
        let mut own = OwnPaths::default();
        let folders = "d/".repeat(100);
        let long = format!("{folders}{}", "x".repeat(3800));
        for number in 0..10_000 {
            own.add(Path::new(&format!("{long}{number}"))).unwrap();
        }
        assert_eq!(own.hashes.len(), 10_000 + 100 + 1, "one number for each path, folder and the root");
        assert!(own.contains(Path::new("d/d")) && own.contains(Path::new(&format!("{long}9999"))));
        assert!(!own.contains(Path::new("d/x")) && !own.contains(Path::new(&long)));
        own.hashes.extend(0..MAX_PATHS as u64);
        own.add(Path::new("one/more")).unwrap_err();
    }
}
