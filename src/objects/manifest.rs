//! What is a copy made of, and is it whole? Parts of some MiB, compressed, each with the sum of what is in it; the manifest
//! lists them, is written last, and is itself known by its sum.

use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hotdesk_base::hex::hex;

/// Data in one part: small enough that several may be in memory at once, large enough that a store is not asked too often.
pub const PART_BYTES: usize = 4 << 20;
/// Longest part as it is stored: what cannot be compressed grows by less than a hundredth.
pub const STORED_PART_BYTES: usize = PART_BYTES + (64 << 10);
/// Longest manifest: about 500 000 parts, 2 TiB.
pub const MANIFEST_BYTES: usize = 64 << 20;
/// zstd's quickest level but for the negative ones: memory shrinks to a third already.
const LEVEL: i32 = 1;
/// The only layout so far.
const VERSION: u32 = 1;

/// The object that names the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// The engine whose files these are.
    pub engine: String,
    /// Every file.
    pub files: Vec<Listed>,
}

/// One file of a saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The engine's name for it.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Whether it is of the disk.
    pub disk: bool,
    /// Its data.
    pub parts: Vec<Part>,
}

/// One object with data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The object is `part-<number>`.
    pub number: u64,
    /// Offset and length of each stretch in the file.
    pub places: Vec<(u64, u64)>,
    /// SHA-256 of the data.
    pub sha256: String,
}

impl Manifest {
    /// The object's name.
    pub const NAME: &'static str = "manifest";

    /// Of an engine's files.
    pub fn new(engine: &str, files: Vec<Listed>) -> Self {
        Self { version: VERSION, engine: engine.to_owned(), files }
    }

    /// Its text, and the sum by which it is known.
    ///
    /// # Errors
    /// When it is too long.
    pub fn write(&self) -> Result<(Vec<u8>, String), String> {
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        if text.len() > MANIFEST_BYTES {
            return Err(format!("a manifest of {} bytes", text.len()));
        }
        let sum = sum(&text);
        Ok((text, sum))
    }

    /// Reads one that has this sum.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8], expected: &str) -> Result<Self, String> {
        if sum(text) != expected {
            return Err("the manifest is not what was written".to_owned());
        }
        let read: Self = serde_json::from_slice(text).map_err(|error| format!("the manifest: {error}"))?;
        if read.version == VERSION {
            Ok(read)
        } else {
            Err(format!("a manifest of version {}", read.version))
        }
    }
}

impl Part {
    /// The object's name.
    pub fn name(&self) -> String {
        format!("part-{}", self.number)
    }

    /// How much data is in it.
    pub fn bytes(&self) -> u64 {
        self.places.iter().map(|(_, length)| length).sum()
    }
}

/// SHA-256 as hex.
pub fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Data as it is stored.
///
/// # Errors
/// When the codec fails.
pub fn pack(data: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(data, LEVEL)
}

/// The data of a part as it was stored, if it is what was written.
///
/// # Errors
/// What is wrong with it.
pub fn unpack(stored: &[u8], part: &Part) -> Result<Vec<u8>, String> {
    let length = usize::try_from(part.bytes()).ok().filter(|length| *length <= PART_BYTES);
    let length = length.ok_or_else(|| format!("{} is too long", part.name()))?;
    let data = zstd::bulk::decompress(stored, length).map_err(|error| format!("{}: {error}", part.name()))?;
    if data.len() == length && sum(&data) == part.sha256 {
        Ok(data)
    } else {
        Err(format!("{} is not what was written", part.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_part(data: &[u8]) -> Part {
        let length = u64::try_from(data.len()).unwrap();
        Part { number: 4, places: vec![(0, 1), (4096, length - 1)], sha256: sum(data) }
    }

    #[test]
    fn data_comes_back_as_it_was_or_not_at_all() {
        let data: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let (part, stored) = (a_part(&data), pack(&data).unwrap());
        assert!(stored.len() < data.len());
        assert_eq!(unpack(&stored, &part).unwrap(), data);
        let mut flipped = stored.clone();
        flipped[stored.len() / 2] ^= 1;
        let shorter = pack(&data[..data.len() - 1]).unwrap();
        let longer = pack(&[&data[..], b"x"].concat()).unwrap();
        for bad in [&flipped[..], &stored[..stored.len() - 1], &shorter, &longer, b"", b"nothing of it"] {
            assert!(unpack(bad, &part).unwrap_err().starts_with("part-4"));
        }
        let huge = Part { places: vec![(0, u64::MAX)], ..part };
        assert!(unpack(&stored, &huge).unwrap_err().contains("too long"));
    }

    #[test]
    fn what_cannot_be_compressed_fits_as_well() {
        let mut noise = vec![0_u8; PART_BYTES];
        rand::fill(&mut noise[..]);
        assert!(pack(&noise).unwrap().len() <= STORED_PART_BYTES);
    }

    #[test]
    fn a_manifest_is_known_by_its_sum() {
        let listed =
            Listed { name: "disk.img".to_owned(), bytes: 9, disk: true, parts: vec![a_part(b"data")] };
        let manifest = Manifest::new("container", vec![listed]);
        let (text, known) = manifest.write().unwrap();
        assert_eq!(Manifest::read(&text, &known).unwrap(), manifest);
        assert!(Manifest::read(&text[1..], &known).is_err());
        let newer = String::from_utf8(text).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(Manifest::read(newer.as_bytes(), &sum(newer.as_bytes())).unwrap_err().contains("version 2"));
    }
}
