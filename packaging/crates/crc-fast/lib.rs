//! Stand-in for the crate `crc-fast`: CRC-64/NVME alone, in the form that `object_store` calls.
//!
//! That crate has tables of all checksums that it knows, 0.6 MB, and a program that uses one of them contains all.
//! `object_store` computes this one for buckets with `Checksum::CRC64NVME`; hotdesk's have SHA-256 (`src/objects/backend.rs`).

/// Reflected polynomial of CRC-64/NVME ("NVM Command Set Specification" of NVM Express).
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// Remainders of all bytes.
static REMAINDERS: [u64; 256] = remainders();

const fn remainders() -> [u64; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
            bit += 1;
        }
        all[byte] = remainder;
        byte += 1;
    }
    all
}

/// A checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME.
    Crc64Nvme,
}

/// Computation of a checksum.
#[derive(Clone, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Begins a computation.
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self(u64::MAX),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, data: &[u8]) {
        for byte in data {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = REMAINDERS[usize::from(low ^ byte)] ^ (self.0 >> 8);
        }
    }

    /// Returns the checksum of the bytes so far.
    pub fn finalize(&self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_checksum_is_that_of_the_catalogue() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(b"12345");
        digest.update(b"6789");
        assert_eq!(digest.finalize(), 0xae8b_1486_0a79_9888);
    }
}
