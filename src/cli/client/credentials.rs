//! Where are keys kept? In `~/.hotdesk/credentials.json`, readable by its owner only: `{current, profiles: {NAME:
//! {apiKey, url}}}` (the shape that wire.md 1 gives for its like).

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use hotdesk_base::secret::Secret;

/// Largest file that is read: thousands of profiles.
const MAX_FILE: u64 = 1024 * 1024;
/// Permissions that let others read or write.
const FOR_OTHERS: u32 = 0o077;

/// What the file holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// The profile in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// All profiles by name.
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

/// One server and the key to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The key.
    #[serde(rename = "apiKey", serialize_with = "reveal", deserialize_with = "conceal")]
    pub key: Secret,
    /// The server's address.
    pub url: String,
}

/// The file is the key's one rightful reader.
fn reveal<S: serde::Serializer>(key: &Secret, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key.reveal())
}

fn conceal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(Secret::new)
}

/// The file of this user.
///
/// # Errors
/// When there is no home folder.
pub fn path() -> Result<PathBuf, String> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    home.map(|home| home.join(".hotdesk/credentials.json"))
        .ok_or_else(|| "there is no home folder for credentials: set HOME".to_owned())
}

impl Credentials {
    /// Reads the file; none is as good as an empty one.
    ///
    /// # Errors
    /// When it cannot be read, others may read it, or it is not what [`Credentials::save`] writes.
    pub fn load(path: &Path) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(|error| failed(&error))?,
        };
        let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
        if mode & FOR_OTHERS != 0 {
            return Err(failed(&format!("others may read it (mode {:03o}): chmod 600", mode & 0o777)));
        }
        let mut text = String::new();
        (&file).take(MAX_FILE).read_to_string(&mut text).map_err(|error| failed(&error))?;
        // serde's own text could quote the file, and with it a key: only the place is told.
        serde_json::from_str(&text).map_err(|error| {
            failed(&format!("not a credentials file (line {}, column {})", error.line(), error.column()))
        })
    }

    /// Writes the file anew beside the old one and swaps them, so that a crash leaves one of the two.
    ///
    /// # Errors
    /// Naming the path that could not be written.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let folder = path.parent().ok_or_else(|| format!("{}: no folder", path.display()))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let new = folder.join(format!(".credentials.{}", std::process::id()));
        let written = self.write(&new).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| {
            // What cannot be written can often not be removed either; the first error is the one to tell.
            drop(std::fs::remove_file(&new));
            format!("{}: {error}", path.display())
        })
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}

/// A key as it may be shown: its prefix and its last four characters, if those give away less than half of it.
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

    fn one(url: &str) -> Credentials {
        let profile = Profile { key: Secret::new("sk_live_0123456789"), url: url.to_owned() };
        Credentials { current: Some("a".to_owned()), profiles: [("a".to_owned(), profile)].into() }
    }

    #[test]
    fn only_its_owner_reads_the_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".hotdesk/credentials.json");
        assert!(Credentials::load(&path).unwrap().profiles.is_empty());
        one("http://x").save(&path).unwrap();
        one("http://y").save(&path).unwrap();
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
