//! The guest image in the image store of Incus: its name and its archive; in submodules its publication, its presence on the
//! members of a cluster, and the removal of old ones.

mod members;
mod prune;
mod publication;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::host::command::{host_error, run_with_timeout, tool};
use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{IMAGE_BYTES, IMAGE_OWNER, ImageRecord};
use crate::{EngineError, EngineResult, Shortage};
use hotdesk_base::hex::hex;
pub(super) use members::list_members;
pub use prune::{PruneOutcome, PrunedImage};
pub(super) use publication::Publisher;
pub use publication::{ImagePresence, PublicationStep, PublishedImage};

const PUBLISH: &str = "publish the guest image";
const FIND: &str = "find the published image";
/// Characters of an image's digest in its alias.
const ALIAS_DIGITS: usize = 16;
/// Timeout of the archive of an image: some gigabytes, on a busy host.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(1800);

/// The guest image of the configuration.
#[derive(Clone, Debug)]
pub(super) struct GuestImage {
    folder: PathBuf,
    /// Digest of its record, which each build of an image writes anew.
    pub(super) id: String,
    /// Bytes of its files.
    bytes: u64,
}

/// The part of `image.json` that is needed here.
#[derive(Deserialize)]
struct BuildRecord {
    size_bytes: u64,
}

/// The agent that a publication puts into the image.
#[derive(Clone, Debug)]
pub(super) struct AgentFile {
    pub(super) path: PathBuf,
    /// Digest of its content.
    pub(super) digest: String,
}

impl GuestImage {
    /// Reads the record of an image's folder. Blocks.
    pub(super) fn read(folder: &Path) -> EngineResult<Self> {
        const STEP: &str = "read the guest image";
        let path = folder.join("image.json");
        let text = fs::read(&path).map_err(host_error(STEP, &path))?;
        let record: BuildRecord = serde_json::from_slice(&text)
            .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", path.display())))?;
        Ok(Self { folder: folder.to_owned(), id: hex(&Sha256::digest(&text)), bytes: record.size_bytes })
    }

    /// The alias under which the image is published.
    pub(super) fn alias(&self) -> String {
        let digits: String = self.id.chars().take(ALIAS_DIGITS).collect();
        format!("hotdesk-{digits}")
    }

    /// The published image.
    ///
    /// # Errors
    /// `Failed`, with the remedy, when it is not published.
    pub(super) async fn find(&self, client: &Client) -> EngineResult<ImageRecord> {
        let found = self.find_alias(client).await.map_err(|error| error.at(FIND))?;
        let fingerprint = found.ok_or_else(|| {
            let detail = format!("Incus has no image {}; run `hotdesk image publish`", self.alias());
            EngineError::failed(FIND, detail)
        })?;
        let image =
            client.get(&format!("/1.0/images/{fingerprint}")).await.map_err(|error| error.at(FIND))?;
        let bytes = image["properties"][IMAGE_BYTES].as_str().and_then(|text| text.parse().ok());
        Ok(ImageRecord { fingerprint, bytes: bytes.unwrap_or_default() })
    }

    async fn find_alias(&self, client: &Client) -> Result<Option<String>, ClientError> {
        match client.get(&format!("/1.0/images/aliases/{}", self.alias())).await {
            Ok(alias) => Ok(alias["target"].as_str().map(str::to_owned)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the archive of the image (`doc/reference/image_format.md` of Incus, "Unified tarball"), and returns the bytes of
    /// the files in it. Blocks.
    fn archive(&self, agent: &AgentFile, scratch: &Path) -> EngineResult<(tempfile::NamedTempFile, u64)> {
        let failed = host_error(PUBLISH, scratch);
        let staged = tempfile::tempdir_in(scratch).map_err(&failed)?;
        let bytes = stage(staged.path(), agent).map_err(&failed)?;
        let archive = tempfile::NamedTempFile::new_in(scratch).map_err(&failed)?;
        // The fastest compression: the members unpack the archive once.
        let mut tar = tool("tar");
        tar.args(["--use-compress-program=gzip -1", "--numeric-owner", "--xattrs", "--xattrs-include=*"])
            .arg("-cf")
            .arg(archive.path())
            .arg("-C")
            .arg(staged.path())
            .arg("metadata.yaml")
            .arg("-C")
            .arg(&self.folder)
            .arg("rootfs")
            .arg("-C")
            .arg(staged.path())
            .arg("rootfs/usr/bin/hotdesk");
        let (status, _, stderr) = run_with_timeout(PUBLISH, &mut tar, None, ARCHIVE_TIMEOUT)?;
        if status.success() {
            return Ok((archive, self.bytes.saturating_add(bytes)));
        }
        let stderr = stderr.trim();
        if stderr.to_lowercase().contains("no space left on device") {
            return Err(EngineError::NoCapacity(Shortage::DiskSpace, format!("{PUBLISH}: {stderr}")));
        }
        Err(EngineError::failed(PUBLISH, format!("tar: {status}: {stderr}")))
    }
}

/// The property by which an installation marks an image that it published or found published.
fn mark(owner: &str) -> String {
    format!("{IMAGE_OWNER}{owner}")
}

/// A property of an image of the API.
fn property<'a>(image: &'a Value, name: &str) -> Option<&'a str> {
    image["properties"][name].as_str()
}

/// Writes what an image has besides the files of the guest image; returns the bytes of the agent.
fn stage(folder: &Path, agent: &AgentFile) -> io::Result<u64> {
    let programs = folder.join("rootfs/usr/bin");
    fs::create_dir_all(&programs)?;
    let program = programs.join("hotdesk");
    let bytes = fs::copy(&agent.path, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
    let metadata = format!(
        "architecture: {}\ncreation_date: {now}\nproperties:\n  description: hotdesk\n",
        std::env::consts::ARCH
    );
    fs::write(folder.join("metadata.yaml"), metadata)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_name_of_its_build_and_an_archive_with_the_agent() {
        let temp = tempfile::tempdir().unwrap();
        let image = temp.path().join("image");
        fs::create_dir_all(image.join("rootfs/usr/bin")).unwrap();
        fs::write(image.join("rootfs/usr/bin/true"), "x").unwrap();
        assert!(GuestImage::read(&image).is_err(), "an image has a record");
        fs::write(image.join("image.json"), r#"{"hash":"a","size_bytes":500}"#).unwrap();
        let first = GuestImage::read(&image).unwrap();
        assert_eq!(first.alias().len(), "hotdesk-".len() + ALIAS_DIGITS);
        fs::write(image.join("image.json"), r#"{"hash":"b","size_bytes":500}"#).unwrap();
        let second = GuestImage::read(&image).unwrap();
        assert_ne!(first.alias(), second.alias());

        let program = temp.path().join("program");
        fs::write(&program, "agent").unwrap();
        let agent = AgentFile { path: program, digest: "d".to_owned() };
        let (archive, bytes) = second.archive(&agent, temp.path()).unwrap();
        assert_eq!(bytes, 505);
        let mut list = tool("tar");
        list.arg("-tzf").arg(archive.path());
        let (status, names, _) = run_with_timeout("list", &mut list, None, ARCHIVE_TIMEOUT).unwrap();
        assert!(status.success());
        for name in ["metadata.yaml", "rootfs/usr/bin/true", "rootfs/usr/bin/hotdesk"] {
            assert!(names.lines().any(|line| line == name), "{name} in {names}");
        }
    }
}
