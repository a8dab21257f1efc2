//! Saved state of a suspended machine, for transfer to and from storage: opaque files of the engine, read and
//! written in extents without their holes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use serde::{Deserialize, Serialize};

/// The location of the saved state of a suspended machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedLocation {
    /// On the host's disk, synced.
    Local,
    /// Fetched, but not yet synced to the host's disk: after a power loss it is [`SavedLocation::Evicted`]
    /// again.
    Fetched,
    /// In storage, not on this host.
    Evicted,
}

/// The saved state of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The generation of the boot that was suspended; every suspend has another.
    pub generation: u64,
    /// Its location.
    pub location: SavedLocation,
    /// Its files, the disk last; empty when it is evicted.
    pub files: Vec<SavedFile>,
}

/// One file of a saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// The engine's name for it.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes that it takes on the host's disk.
    pub allocated: u64,
    /// Whether it belongs to the disk: a machine without its memory needs only these.
    pub disk: bool,
}

impl SavedState {
    /// Bytes that it takes on the host's disk.
    pub fn allocated(&self) -> u64 {
        self.files.iter().map(|file| file.allocated).sum()
    }
}

/// Extents of a file: data with its offsets; between them are holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Offset and length of each extent in bytes, ascending.
    pub places: Vec<(u64, u64)>,
    /// The data of the extents, concatenated.
    pub bytes: Vec<u8>,
}

impl Extents {
    /// The offset behind the last extent; `None` without extents.
    pub fn end(&self) -> Option<u64> {
        self.places.last().map(|(at, length)| at.saturating_add(*length))
    }

    /// Reads at most `most` bytes of a file's data from an offset on; no extents mean the end.
    ///
    /// # Errors
    /// Those of read(2) and lseek(2).
    pub fn read(file: &File, from: u64, most: usize) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let (mut found, mut at) = (Self::default(), from);
        while found.bytes.len() < most && at < length {
            let start = match seek(file, SeekFrom::Data(at)) {
                Ok(start) if start < length => start,
                Ok(_) | Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let end = seek(file, SeekFrom::Hole(start))?.min(length);
            let filled = found.bytes.len();
            let room = u64::try_from(most - filled).map_err(io::Error::other)?;
            let take = (end - start).min(room);
            found.bytes.resize(filled + usize::try_from(take).map_err(io::Error::other)?, 0);
            file.read_exact_at(found.bytes.get_mut(filled..).unwrap_or_default(), start)?;
            found.places.push((start, take));
            at = start + take;
        }
        Ok(found)
    }

    /// Writes them to a file of this length, which is made (mode 0600) when missing. Does not sync.
    ///
    /// # Errors
    /// Those of write(2); `UnexpectedEof` or `InvalidData` when the lengths in `places` do not add up to
    /// `bytes`.
    pub fn write(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        let mut rest = self.bytes.as_slice();
        for (at, bytes) in &self.places {
            let bytes = usize::try_from(*bytes).map_err(io::Error::other)?;
            let (extent, later) = rest.split_at_checked(bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
            file.write_all_at(extent, *at)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Describes a file by its metadata.
///
/// # Errors
/// Those of stat(2).
pub fn saved_file(path: &Path, name: String, disk: bool) -> io::Result<SavedFile> {
    let data = path.metadata()?;
    Ok(SavedFile { name, bytes: data.len(), allocated: data.blocks().saturating_mul(512), disk })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_is_copied_in_pieces_without_its_holes() {
        let temp = tempfile::tempdir().unwrap();
        let (path, copy) = (temp.path().join("disk.img"), temp.path().join("copy.img"));
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_all_at(&[7; 10_000], 8192).unwrap();
        file.write_all_at(&[8; 5000], 1 << 20).unwrap();
        file.write_all_at(b"the end", (1 << 30) - 7).unwrap();
        let (mut from, mut carried, mut pieces) = (0, 0, 0);
        Extents::default().write(&copy, 1 << 30).unwrap();
        loop {
            let piece = Extents::read(&file, from, 6000).unwrap();
            let Some(end) = piece.end() else { break };
            assert!(piece.bytes.len() <= 6000);
            piece.write(&copy, 1 << 30).unwrap();
            (from, carried, pieces) = (end, carried + piece.bytes.len(), pieces + 1);
        }
        assert!(carried < 100_000 && pieces > 2, "{carried} bytes in {pieces} pieces");
        let copied = File::open(&copy).unwrap();
        assert_eq!(copied.metadata().unwrap().len(), 1 << 30);
        assert!(saved_file(&copy, String::new(), true).unwrap().allocated < 1 << 20);
        for (at, byte, length) in [(8192, 7, 10_000), (1 << 20, 8, 5000), (500_000_000, 0, 100)] {
            let mut read = vec![1; length];
            copied.read_exact_at(&mut read, at).unwrap();
            assert!(read.iter().all(|it| *it == byte), "at {at}");
        }
        let mut end = [0; 7];
        copied.read_exact_at(&mut end, (1 << 30) - 7).unwrap();
        assert_eq!(&end, b"the end");
    }

    #[test]
    fn places_that_do_not_fit_their_bytes_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        for (places, bytes) in [(vec![(0, 2)], vec![1]), (vec![(0, 1)], vec![1, 2]), (vec![], vec![1])] {
            assert!(Extents { places, bytes }.write(&temp.path().join("x"), 9).is_err());
        }
    }
}
