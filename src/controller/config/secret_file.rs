//! Secrets in files that a setting names.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Fewest characters of a secret: 32 of base62 are 190 bits.
const MIN_SECRET: usize = 32;

/// Reads the secret of a setting from a file with mode 0600; `None` for an empty path.
///
/// # Errors
/// `Internal` with a context that names the setting, the file and the problem, without the contents.
pub fn read(setting: &str, file: &Path) -> Result<Option<Secret>> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let described =
        |what: String| Error::internal(format!("configuration: {setting} {}: {what}", file.display()));
    let mode = file.metadata().map_err(|error| described(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(described("other users can read it; run chmod 0600 on it".to_owned()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| described(error.to_string()))?;
    let secret = text.trim();
    if secret.len() < MIN_SECRET {
        return Err(described(format!("a secret has at least {MIN_SECRET} characters")));
    }
    Ok(Some(Secret::new(secret)))
}
