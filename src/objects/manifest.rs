//! Manifest and compressed parts of one copy of a saved state, each with its SHA-256.
//!
//! The manifest lists the parts and is written last. The controller stores the manifest's own checksum.

use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hotdesk_base::hex::hex;
use hotdesk_base::step_error::StepError;

/// Data in one part, in bytes before compression. Several parts fit in memory at once, and a copy needs few
/// requests.
pub const PART_BYTES: usize = 4 << 20;
/// Largest stored part, in bytes. Data that cannot be compressed grows by less than 1 %.
pub const STORED_PART_BYTES: usize = PART_BYTES + (64 << 10);
/// Largest manifest, in bytes: about 500 000 parts, or 2 TiB of data.
pub const MANIFEST_BYTES: usize = 64 << 20;
/// zstd level. The fastest non-negative level already shrinks memory to a third.
const LEVEL: i32 = 1;
/// Version of the manifest's layout.
const VERSION: u32 = 1;

/// List of the files of a copy and of the objects that hold their data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// Name of the engine that wrote the files.
    pub engine: String,
    /// All files, in the order in which the engine listed them.
    pub files: Vec<ManifestFile>,
}

/// One file of a saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// File name that the engine uses.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the file belongs to the disk and not to the memory.
    pub disk: bool,
    /// Parts with its data; a range in no part is a hole.
    pub parts: Vec<Part>,
}

/// One object with data of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number in the object's name, `part-<number>`.
    pub number: u64,
    /// Offset and length in the file of each range, in bytes, in the order of the part's data.
    pub places: Vec<(u64, u64)>,
    /// SHA-256 of the uncompressed data, in hex.
    pub sha256: String,
}

impl Manifest {
    /// Name of the manifest's object.
    pub const NAME: &'static str = "manifest";

    /// Makes a manifest of an engine's files.
    pub fn new(engine: &str, files: Vec<ManifestFile>) -> Self {
        Self { version: VERSION, engine: engine.to_owned(), files }
    }

    /// Returns the manifest as JSON, and the SHA-256 of that text in hex.
    ///
    /// # Errors
    /// When the text is longer than [`MANIFEST_BYTES`].
    pub fn write(&self) -> Result<(Vec<u8>, String), StepError> {
        let text = serde_json::to_vec(self).map_err(StepError::at("the manifest cannot be written"))?;
        if text.len() > MANIFEST_BYTES {
            let length = text.len();
            return Err(StepError::new(format!(
                "the manifest has {length} bytes, more than {MANIFEST_BYTES}"
            )));
        }
        let sum = checksum(&text);
        Ok((text, sum))
    }

    /// Parses a manifest whose SHA-256 in hex must be `expected`.
    ///
    /// # Errors
    /// When the checksum, the JSON or the version is wrong.
    pub fn read(text: &[u8], expected: &str) -> Result<Self, StepError> {
        if checksum(text) != expected {
            return Err(StepError::new("the manifest is damaged: its checksum is wrong"));
        }
        let read: Self =
            serde_json::from_slice(text).map_err(StepError::at("the manifest cannot be parsed"))?;
        if read.version == VERSION {
            return Ok(read);
        }
        let found = read.version;
        Err(StepError::new(format!("the manifest has version {found}; this program reads version {VERSION}")))
    }
}

impl Part {
    /// Name of the part's object.
    pub fn name(&self) -> String {
        format!("part-{}", self.number)
    }

    /// Length of the uncompressed data in bytes.
    pub fn bytes(&self) -> u64 {
        self.places.iter().map(|(_, length)| length).sum()
    }
}

/// Returns the SHA-256 in hex.
pub fn checksum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Compresses data for storage.
///
/// # Errors
/// The error of zstd.
pub fn pack(data: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(data, LEVEL)
}

/// Decompresses a stored part and checks its length and SHA-256.
///
/// # Errors
/// When the part is too long or damaged; the text begins with its name.
pub fn unpack(stored: &[u8], part: &Part) -> Result<Vec<u8>, StepError> {
    let length = usize::try_from(part.bytes()).ok().filter(|length| *length <= PART_BYTES);
    let length = length.ok_or_else(|| {
        StepError::new(format!("{} is too long: a part has at most {PART_BYTES} bytes", part.name()))
    })?;
    let data = zstd::bulk::decompress(stored, length)
        .map_err(StepError::at(format!("{} cannot be decompressed", part.name())))?;
    if data.len() == length && checksum(&data) == part.sha256 {
        Ok(data)
    } else {
        Err(StepError::new(format!("{} is damaged: its length or checksum is wrong", part.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_part(data: &[u8]) -> Part {
        let length = u64::try_from(data.len()).unwrap();
        Part { number: 4, places: vec![(0, 1), (4096, length - 1)], sha256: checksum(data) }
    }

    #[test]
    fn a_damaged_part_is_refused() {
        let data: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let (part, stored) = (a_part(&data), pack(&data).unwrap());
        assert!(stored.len() < data.len());
        assert_eq!(unpack(&stored, &part).unwrap(), data);
        let mut flipped = stored.clone();
        flipped[stored.len() / 2] ^= 1;
        let shorter = pack(&data[..data.len() - 1]).unwrap();
        let longer = pack(&[&data[..], b"x"].concat()).unwrap();
        for bad in [&flipped[..], &stored[..stored.len() - 1], &shorter, &longer, b"", b"nothing of it"] {
            assert!(unpack(bad, &part).unwrap_err().to_string().starts_with("part-4"));
        }
        let huge = Part { places: vec![(0, u64::MAX)], ..part };
        assert!(unpack(&stored, &huge).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn incompressible_data_fits_the_stored_limit() {
        let mut noise = vec![0_u8; PART_BYTES];
        rand::fill(&mut noise[..]);
        assert!(pack(&noise).unwrap().len() <= STORED_PART_BYTES);
    }

    #[test]
    fn a_manifest_with_another_checksum_is_refused() {
        let listed =
            ManifestFile { name: "disk.img".to_owned(), bytes: 9, disk: true, parts: vec![a_part(b"data")] };
        let manifest = Manifest::new("container", vec![listed]);
        let (text, known) = manifest.write().unwrap();
        assert_eq!(Manifest::read(&text, &known).unwrap(), manifest);
        assert!(Manifest::read(&text[1..], &known).is_err());
        let newer = String::from_utf8(text).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(
            Manifest::read(newer.as_bytes(), &checksum(newer.as_bytes()))
                .unwrap_err()
                .to_string()
                .contains("version 2")
        );
    }
}
