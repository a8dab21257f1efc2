//! Credentials file of the client: profiles with server address and API key.
//!
//! The file is `~/.hotdesk/credentials.json` with mode 0600: `{current, profiles: {NAME: {apiKey, url}}}`.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use hotdesk_base::secret::Secret;

/// Largest file in bytes that is read: enough for thousands of profiles.
const MAX_FILE: u64 = 1024 * 1024;
/// Mode bits that give access to users other than the owner.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Content of the credentials file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// Name of the current profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Profiles by name.
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

/// A server and its API key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// API key.
    #[serde(rename = "apiKey", serialize_with = "reveal", deserialize_with = "conceal")]
    pub key: Secret,
    /// Server address.
    pub url: String,
}

// `Secret` does not serialize itself, so that no key reaches a log; this file must hold it.
fn reveal<S: serde::Serializer>(key: &Secret, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key.reveal())
}

fn conceal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(Secret::new)
}

/// Path of the credentials file of this user.
///
/// # Errors
/// When the user has no home folder.
pub fn path() -> Result<PathBuf, String> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    home.map(|home| home.join(".hotdesk/credentials.json"))
        .ok_or_else(|| "cannot locate ~/.hotdesk/credentials.json: no home folder; set HOME".to_owned())
}

impl Credentials {
    /// Reads the file. A missing file counts as empty.
    ///
    /// # Errors
    /// When the file cannot be read, other users have access to it, or it has another format.
    pub fn load(path: &Path) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(|error| failed(&error))?,
        };
        let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
        if mode & GROUP_AND_OTHERS != 0 {
            return Err(failed(&format!(
                "other users can access it (mode {:03o}): run chmod 600 on it",
                mode & 0o777
            )));
        }
        let mut text = String::new();
        (&file).take(MAX_FILE).read_to_string(&mut text).map_err(|error| failed(&error))?;
        // serde's message may quote the file, and with it a key; so only the position is reported.
        serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            failed(&format!("invalid credentials file (line {line}, column {column}); fix or delete it"))
        })
    }

    /// Writes a new file and renames it over the old one, so that a crash leaves one complete file.
    ///
    /// # Errors
    /// When the folder or the file cannot be written. The old file is unchanged then.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let folder =
            path.parent().ok_or_else(|| format!("{}: the path has no parent folder", path.display()))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let new = folder.join(format!(".credentials.{}", std::process::id()));
        let written = self.write(&new).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| {
            // The removal often fails for the same reason; only the first error is reported.
            drop(std::fs::remove_file(&new));
            format!("cannot write {}: {error}", path.display())
        })
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}

/// Returns the prefix and the last four characters of a key, for display. A secret part shorter than eight characters
/// is hidden completely.
pub fn hint(key: &Secret) -> String {
    let text = key.reveal();
    let prefix: &str = ["sk_live_", "sk_"].into_iter().find(|prefix| text.starts_with(prefix)).unwrap_or("");
    let secret: Vec<char> = text[prefix.len()..].chars().collect();
    if secret.len() < 8 {
        return format!("{prefix}…");
    }
    format!("{prefix}…{}", secret[secret.len() - 4..].iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_profile(url: &str) -> Credentials {
        let profile = Profile { key: Secret::new("sk_live_0123456789"), url: url.to_owned() };
        Credentials { current: Some("a".to_owned()), profiles: [("a".to_owned(), profile)].into() }
    }

    #[test]
    fn only_its_owner_reads_the_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".hotdesk/credentials.json");
        assert!(Credentials::load(&path).unwrap().profiles.is_empty());
        single_profile("http://x").save(&path).unwrap();
        single_profile("http://y").save(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
        let back = Credentials::load(&path).unwrap();
        assert_eq!((back.current.as_deref(), back.profiles["a"].url.as_str()), (Some("a"), "http://y"));
        assert_eq!(back.profiles["a"].key.reveal(), "sk_live_0123456789");
        assert!(!format!("{back:?}").contains("0123456789"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(Credentials::load(&path).unwrap_err().contains("chmod 600"));
    }

    #[test]
    fn a_broken_file_is_named_and_not_quoted() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("credentials.json");
        let text = "{\"profiles\": {\"a\": {\"apiKey\": \"sk_live_hush\", \"url\": 7}}}";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let error = Credentials::load(&path).unwrap_err();
        assert!(error.contains("credentials.json") && error.contains("line 1"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_key_is_shown_by_its_ends_only() {
        for (key, shown) in [
            ("sk_live_0123456789abcdef", "sk_live_…cdef"),
            ("sk_0123456789", "sk_…6789"),
            ("sk_live_short", "sk_live_…"),
            ("something else", "…else"),
            ("", "…"),
        ] {
            assert_eq!(hint(&Secret::new(key)), shown);
        }
    }
}
