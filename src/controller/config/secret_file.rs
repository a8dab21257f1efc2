//! Secrets in files that a setting names.

use std::fmt::Display;
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
    let secret = read_any(setting, file)?;
    if secret.as_ref().is_some_and(|secret| secret.reveal().len() < MIN_SECRET) {
        return Err(problem(setting, file, format_args!("a secret has at least {MIN_SECRET} characters")));
    }
    Ok(secret)
}

/// Reads a secret that another service chose, of any length, like [`read`].
///
/// # Errors
/// Those of [`read`]; `Internal` for an empty file.
pub fn read_any(setting: &str, file: &Path) -> Result<Option<Secret>> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    check_private(setting, file)?;
    let text = std::fs::read_to_string(file).map_err(|error| problem(setting, file, error))?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(problem(setting, file, "it is empty"));
    }
    Ok(Some(Secret::new(secret)))
}

/// Checks that only its owner can read the file of a setting.
///
/// # Errors
/// `Internal` with a context that names the setting, the file and the problem.
pub fn check_private(setting: &str, file: &Path) -> Result<()> {
    let mode = file.metadata().map_err(|error| problem(setting, file, error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(problem(setting, file, "other users can read it; run chmod 0600 on it"));
    }
    Ok(())
}

fn problem(setting: &str, file: &Path, what: impl Display) -> Error {
    Error::internal(format!("configuration: {setting} {}: {what}", file.display()))
}
