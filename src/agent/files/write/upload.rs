//! Upload of a file to a path: streamed to a temporary file, hashed, and renamed when complete.

use std::io::Write;
use std::path::PathBuf;

use hotdesk_http::extract::Body;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::files::paths::{EntryHandle, Parents};
use crate::files::read::entity_tag;
use crate::files::write::receive::receive;
use crate::files::write::temp_file::{TempFile, WriteOptions, check_free};
use crate::files::write::version::ExpectedVersion;
use crate::files::{Files, file_error};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::files::guest_file::{FileWritten, PutQuery, WriteOutcome};

/// A file that was written.
#[derive(Clone, Debug)]
pub struct UploadedFile {
    /// What was written.
    pub written: FileWritten,
    /// Strong entity tag of the new version, quoted.
    pub etag: String,
}

/// Writes a body to a path, if the file there is the expected version.
///
/// # Errors
/// `Conflict` (`file_changed`, `already_exists`, `is_a_folder`), if possible before the body is read;
/// `Invalid` for a bad path or mode, or a body that ends early; `Unavailable` (`disk_full`,
/// `too_many_transfers`). Nothing is changed then.
pub async fn put(
    files: &Files,
    home: PathBuf,
    query: PutQuery,
    expected: Option<ExpectedVersion>,
    body: Body,
) -> Result<UploadedFile> {
    let options =
        WriteOptions { overwrite: query.overwrite, mode: mode(query.mode.as_deref())?, modified: None };
    let slot = files.slot()?;
    receive(body, CancellationToken::new(), move |mut pieces| {
        let _slot = slot;
        let entry_handle = match &expected {
            // A file that must be there needs no folders.
            Some(expected) => {
                let found = EntryHandle::for_new(&home, &query.path, Parents::Required);
                let found = found.map_err(|error| ExpectedVersion::explain(error, &query.path))?;
                expected.check(&found.folder, &found.name, &found.path)?;
                found
            }
            None => EntryHandle::for_new(&home, &query.path, parents(query.parents))?,
        };
        check_free(&entry_handle.folder, &entry_handle.name, options.overwrite, &entry_handle.path)?;
        let (unfinished, mut file) = TempFile::create(&entry_handle.folder, &entry_handle.path)?;
        let (mut digest, mut size) = (Sha256::new(), 0);
        while let Some(piece) = pieces.piece()? {
            file.write_all(&piece).map_err(|error| file_error(&entry_handle.path, &error))?;
            digest.update(&piece);
            size += piece.len() as u64;
        }
        let (name, path) = (&entry_handle.name, &entry_handle.path);
        let replaced = match &expected {
            Some(expected) => unfinished.replace(&file, name, options, expected, path)?,
            None => unfinished.finish(&file, name, options, path)?,
        };
        let facts = file.metadata().map_err(|error| file_error(path, &error))?;
        let sha256 = hex(&digest.finalize());
        let written = FileWritten { path: entry_handle.path, size, sha256, outcome: outcome(replaced) };
        Ok(UploadedFile { written, etag: entity_tag(&facts) })
    })
    .await
}

/// Value of the parameter `parents`.
pub fn parents(made: bool) -> Parents {
    if made { Parents::Create } else { Parents::Required }
}

/// Outcome of a write.
pub fn outcome(replaced: bool) -> WriteOutcome {
    if replaced { WriteOutcome::Replaced } else { WriteOutcome::Created }
}

/// Parses permissions: octal digits without the set-user bits (T8, docs/security.md).
///
/// # Errors
/// `Invalid` for any other text.
pub fn mode(text: Option<&str>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if digits && mode <= 0o777 => Ok(Some(mode)),
        _ => Err(Error::invalid("mode must be octal digits, at most 777").code(ErrorCode::InvalidRequest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_without_special_bits() {
        for (text, wanted) in [("644", 0o644), ("0755", 0o755), ("0", 0), ("777", 0o777)] {
            assert_eq!(mode(Some(text)).unwrap(), Some(wanted), "{text}");
        }
        assert_eq!(mode(None).unwrap(), None);
        for bad in ["", "8", "4755", "1777", "0o644", "+644", "-1", "00644", "rwx", " 644"] {
            assert!(mode(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
