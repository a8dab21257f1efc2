//! Hash of a file, computed in pieces with a timeout.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::digest::DynDigest;
use sha2::{Digest, Sha256, Sha512};
use tokio_util::sync::CancellationToken;

use crate::files::{file_error, read};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::files::guest_file::{FileHash, HashQuery};

/// Timeout: 100 GB from a fast disk.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// Hashes a file. `stop` ends the work when the client has disconnected.
///
/// # Errors
/// `Invalid` for an unknown algorithm; `TimedOut`; those of [`read::open`].
pub fn hash(home: &Path, query: &HashQuery, stop: &CancellationToken) -> Result<FileHash> {
    let algorithm = query.algorithm.as_deref().unwrap_or("sha256");
    let mut digest: Box<dyn DynDigest> = match algorithm {
        "sha256" => Box::new(Sha256::new()),
        "sha512" => Box::new(Sha512::new()),
        _ => return Err(Error::invalid("algorithm must be sha256 or sha512").code(ErrorCode::InvalidRequest)),
    };
    let mut content = read::open(home, &query.path)?;
    let (mut buffer, mut size) = (vec![0; CHUNK], 0);
    let until = Instant::now() + TIMEOUT;
    loop {
        let length = content.file.read(&mut buffer).map_err(|error| file_error(&query.path, &error))?;
        if length == 0 {
            break;
        }
        digest.update(&buffer[..length]);
        size += length as u64;
        if stop.is_cancelled() || Instant::now() > until {
            return Err(Error::timed_out(format!("{}: the file could not be read in time", query.path)));
        }
    }
    let hash = hex(&digest.finalize());
    Ok(FileHash { path: content.path, algorithm: algorithm.to_owned(), hash, size })
}
