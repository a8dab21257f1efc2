//! What is saved of a suspended machine, and how does it leave its host and come back? Files of the engine's own formats,
//! carried in pieces of data without the holes; whoever carries them need not know what is in them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

/// Where the saved state of a suspended machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the host's disk.
    Here,
    /// Fetched back, and not yet on the host's disk for certain: a host that loses its power has it [`Place::Away`] again.
    Arrived,
    /// Not on this host.
    Away,
}

/// What is saved of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
    /// The boot that it ran since: each sleep has another.
    pub generation: u64,
    /// Where it is.
    pub place: Place,
    /// What it is made of; empty for one that is away.
    pub files: Vec<SavedFile>,
}

/// One file of a saved state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// The engine's name for it.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// What it takes on the host's disk.
    pub spent: u64,
    /// Whether it is of the disk: a machine that gives up its memory needs these alone.
    pub disk: bool,
}

impl SavedState {
    /// What it takes on the host's disk.
    pub fn spent(&self) -> u64 {
        self.files.iter().map(|file| file.spent).sum()
    }
}

/// Data of a file with the places where it belongs; what lies between is a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Offset and length of each stretch, ascending.
    pub places: Vec<(u64, u64)>,
    /// The stretches' bytes, one after the other.
    pub bytes: Vec<u8>,
}

impl Extents {
    /// Where the file goes on behind them; `None` where there are none.
    pub fn end(&self) -> Option<u64> {
        self.places.last().map(|(at, length)| at.saturating_add(*length))
    }

    /// Reads a file's data from an offset on, at most `most` bytes of it. None is left when there are no places.
    ///
    /// # Errors
    /// When the file cannot be read.
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

    /// Writes them to a file of this length, which is made (mode 0600) when it is missing. Not synced.
    ///
    /// # Errors
    /// When the file cannot be written, or places and bytes do not fit together.
    pub fn write(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        let mut rest = self.bytes.as_slice();
        for (at, bytes) in &self.places {
            let bytes = usize::try_from(*bytes).map_err(io::Error::other)?;
            let (now, later) = rest.split_at_checked(bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
            file.write_all_at(now, *at)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// What is known of a file by its metadata.
///
/// # Errors
/// When it cannot be asked for.
pub fn saved_file(path: &Path, name: String, disk: bool) -> io::Result<SavedFile> {
    let data = path.metadata()?;
    Ok(SavedFile { name, bytes: data.len(), spent: data.blocks().saturating_mul(512), disk })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_goes_over_in_pieces_without_its_holes() {
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
        assert!(saved_file(&copy, String::new(), true).unwrap().spent < 1 << 20);
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
