//! How is a file of any size written to a path? Streamed beside its place, hashed on the way, renamed when whole.

use std::io::Write;
use std::path::PathBuf;

use axum::body::Body;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::paths::{Parents, Spot};
use super::receive::receive;
use super::unfinished::{Placing, Unfinished, check_free};
use super::{Files, file_error};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::guest_file::{Outcome, PutQuery, Written};

/// Streams a body to a path.
///
/// # Errors
/// `Conflict` when something is there (before the body is read, where that is known); `Invalid` for a path that cannot
/// be written to, and when the body breaks off; `Unavailable` (`disk_full`). Nothing is left behind.
pub async fn put(files: &Files, home: PathBuf, query: PutQuery, body: Body) -> Result<Written> {
    let placing = Placing { overwrite: query.overwrite, mode: mode(query.mode.as_deref())? };
    let slot = files.slot()?;
    receive(body, CancellationToken::new(), move |mut pieces| {
        let _slot = slot;
        let spot = Spot::fresh(&home, &query.path, parents(query.parents))?;
        check_free(&spot.folder, &spot.name, placing.overwrite, &spot.path)?;
        let (unfinished, mut file) = Unfinished::create(&spot.folder, &spot.path)?;
        let (mut digest, mut size) = (Sha256::new(), 0);
        while let Some(piece) = pieces.piece()? {
            file.write_all(&piece).map_err(|error| file_error(&spot.path, &error))?;
            digest.update(&piece);
            size += piece.len() as u64;
        }
        let replaced = unfinished.finish(&file, &spot.name, placing, &spot.path)?;
        let sha256 = hex(&digest.finalize());
        Ok(Written { path: spot.path, size, sha256, outcome: outcome(replaced) })
    })
    .await
}

/// What `?parents=` means.
pub fn parents(made: bool) -> Parents {
    if made { Parents::Made } else { Parents::Needed }
}

/// What became of something that got its name.
pub fn outcome(replaced: bool) -> Outcome {
    if replaced { Outcome::Replaced } else { Outcome::Created }
}

/// Permissions as a client writes them: octal digits, without the set-user bits (threats.md T8).
///
/// # Errors
/// `Invalid` for anything else.
pub fn mode(text: Option<&str>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if digits && mode <= 0o777 => Ok(Some(mode)),
        _ => Err(Error::invalid("mode must be octal digits, at most 777").code("INVALID_REQUEST")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_holds_no_special_bits() {
        for (text, wanted) in [("644", 0o644), ("0755", 0o755), ("0", 0), ("777", 0o777)] {
            assert_eq!(mode(Some(text)).unwrap(), Some(wanted), "{text}");
        }
        assert_eq!(mode(None).unwrap(), None);
        for bad in ["", "8", "4755", "1777", "0o644", "+644", "-1", "00644", "rwx", " 644"] {
            assert!(mode(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
