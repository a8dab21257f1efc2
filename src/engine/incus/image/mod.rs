//! The guest image in the image store of Incus: its name and its archive; in submodules its publication, its presence on the
//! members of a cluster, and the removal of old ones.

mod members;
mod prune;
mod publication;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::host::command::{find, host_error, run_with_timeout, tool, version};
use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{IMAGE_BYTES, IMAGE_OWNER, ImageRecord, LAUNCHER};
use crate::incus::sandbox::{BASE, FOLDERS, RUNSC};
use crate::{EngineError, EngineResult, Shortage};
use hotdesk_base::hex::hex;
use hotdesk_domain::computer::isolation::Isolation;
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
/// Folder of the staged files around the guest image in an image for gVisor.
const OUTER: &str = "outer";
/// Names of the members of that archive: the guest image moves into a folder, and the staged files around it. The targets of
/// symbolic links stay.
const TRANSFORM: &str = "--transform=flags=rhS;s,^rootfs,rootfs/base,;s,^outer,rootfs,";
/// Entries of the guest image's root that the launcher's programs need, which become links.
const LINKED: [&str; 8] = ["bin", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];
/// Folders of the root besides, as mount points or for the tools that look for them.
const MOUNT_POINTS: [&str; 7] = ["dev", "proc", "root", "run", "sys", "tmp", "var"];

/// The guest image of the configuration.
#[derive(Clone, Debug)]
pub(super) struct GuestImage {
    folder: PathBuf,
    /// Digest of its record, which each build of an image writes anew.
    pub(super) id: String,
    /// Bytes of its files.
    bytes: u64,
    /// gVisor's runtime, for instances that run it.
    runsc: Option<Runsc>,
}

/// gVisor's runtime on this host.
#[derive(Clone, Debug)]
struct Runsc {
    path: PathBuf,
    version: String,
}

impl Runsc {
    /// Finds a name in the system's usual folders, or a path. Blocks.
    fn find(program: &str) -> EngineResult<Self> {
        const STEP: &str = "find gVisor's runtime";
        let path = find(program).ok_or_else(|| {
            let detail = format!(
                "{program} is not installed; set engines.runsc, or leave sandbox out of engines.offered"
            );
            EngineError::failed(STEP, detail)
        })?;
        Ok(Self { path, version: version(STEP, program)? })
    }
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
    fn read(folder: &Path) -> EngineResult<Self> {
        const STEP: &str = "read the guest image";
        let path = folder.join("image.json");
        let text = fs::read(&path).map_err(host_error(STEP, &path))?;
        let record: BuildRecord = serde_json::from_slice(&text)
            .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", path.display())))?;
        let id = hex(&Sha256::digest(&text));
        Ok(Self { folder: folder.to_owned(), id, bytes: record.size_bytes, runsc: None })
    }

    /// [`Self::read`] for instances of an isolation; `runsc` is gVisor's runtime on this host. Blocks.
    pub(super) fn read_for(isolation: Isolation, folder: &Path, runsc: &str) -> EngineResult<Self> {
        let image = Self::read(folder)?;
        match isolation {
            Isolation::Sandbox => Ok(image.with_runsc(Runsc::find(runsc)?)),
            Isolation::Shared | Isolation::Vm => Ok(image),
        }
    }

    /// The same image for instances with gVisor, in the form that the launcher needs.
    fn with_runsc(self, runsc: Runsc) -> Self {
        Self { runsc: Some(runsc), ..self }
    }

    /// Digest of what instances get of it besides the agent.
    pub(super) fn key(&self) -> String {
        match &self.runsc {
            None => self.id.clone(),
            Some(runsc) => hex(&Sha256::digest(format!("sandbox {} {}", self.id, runsc.version))),
        }
    }

    /// The alias under which the image is published.
    pub(super) fn alias(&self) -> String {
        let digits: String = self.key().chars().take(ALIAS_DIGITS).collect();
        match &self.runsc {
            None => format!("hotdesk-{digits}"),
            Some(_) => format!("hotdesk-sandbox-{digits}"),
        }
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
        let bytes = match &self.runsc {
            None => stage(staged.path(), agent),
            Some(runsc) => stage_around(staged.path(), agent, runsc, &self.folder),
        };
        let bytes = bytes.map_err(&failed)?;
        let archive = tempfile::NamedTempFile::new_in(scratch).map_err(&failed)?;
        // The fastest compression: the members unpack the archive once.
        let mut tar = tool("tar");
        tar.args(["--use-compress-program=gzip -1", "--numeric-owner", "--xattrs", "--xattrs-include=*"])
            .arg("-cf")
            .arg(archive.path());
        if self.runsc.is_some() {
            tar.args([TRANSFORM, "-C"]).arg(staged.path()).args(["metadata.yaml", OUTER, "-C"]);
            tar.arg(&self.folder).arg("rootfs");
        } else {
            tar.arg("-C")
                .arg(staged.path())
                .args(["metadata.yaml", "-C"])
                .arg(&self.folder)
                .args(["rootfs", "-C"])
                .arg(staged.path())
                .arg("rootfs/usr/bin/hotdesk");
        }
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
    write_metadata(folder)?;
    copy_program(&agent.path, &folder.join("rootfs/usr/bin/hotdesk"))
}

/// [`stage`] for an image whose root is that of the launcher, with the guest image in [`BASE`]; returns the bytes of the
/// programs. The launcher's own tools and libraries are those of the guest image, which no guest can change.
fn stage_around(folder: &Path, agent: &AgentFile, runsc: &Runsc, image: &Path) -> io::Result<u64> {
    write_metadata(folder)?;
    let root = folder.join(OUTER);
    for name in MOUNT_POINTS.iter().chain(&FOLDERS) {
        fs::create_dir_all(root.join(name))?;
    }
    for name in LINKED {
        if image.join("rootfs").join(name).symlink_metadata().is_ok() {
            symlink(Path::new(BASE.trim_start_matches('/')).join(name), root.join(name))?;
        }
    }
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let programs = [(&agent.path, inside(LAUNCHER)), (&runsc.path, inside(RUNSC))];
    programs.into_iter().map(|(from, to)| copy_program(from, &to)).sum()
}

/// Copies a program, with its folder; returns its bytes.
fn copy_program(from: &Path, to: &Path) -> io::Result<u64> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    let bytes = fs::copy(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(bytes)
}

fn write_metadata(folder: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
    let metadata = format!(
        "architecture: {}\ncreation_date: {now}\nproperties:\n  description: hotdesk\n",
        std::env::consts::ARCH
    );
    fs::write(folder.join("metadata.yaml"), metadata)
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

    #[test]
    fn an_image_for_gvisor_has_the_guest_image_below_the_launcher() {
        let temp = tempfile::tempdir().unwrap();
        let image = temp.path().join("image");
        fs::create_dir_all(image.join("rootfs/usr/bin")).unwrap();
        fs::write(image.join("rootfs/usr/bin/true"), "x").unwrap();
        symlink("usr/bin", image.join("rootfs/bin")).unwrap();
        fs::write(image.join("image.json"), r#"{"hash":"a","size_bytes":500}"#).unwrap();
        let program = temp.path().join("program");
        fs::write(&program, "agent").unwrap();
        let plain = GuestImage::read(&image).unwrap();
        let runsc = |version: &str| Runsc { path: program.clone(), version: version.to_owned() };
        let sandbox = plain.clone().with_runsc(runsc("1"));
        assert_eq!(plain.key(), plain.id);
        for other in [&plain, &plain.clone().with_runsc(runsc("2"))] {
            assert_ne!(sandbox.alias(), other.alias());
        }
        let agent = AgentFile { path: program.clone(), digest: "d".to_owned() };
        let (archive, bytes) = sandbox.archive(&agent, temp.path()).unwrap();
        assert_eq!(bytes, 510);
        let mut list = tool("tar");
        list.arg("-tvzf").arg(archive.path());
        let (status, names, _) = run_with_timeout("list", &mut list, None, ARCHIVE_TIMEOUT).unwrap();
        assert!(status.success());
        for name in [
            "metadata.yaml",
            "rootfs/base/usr/bin/true",
            "rootfs/base/bin -> usr/bin",
            "rootfs/bin -> base/bin",
            "rootfs/usr -> base/usr",
            "rootfs/hotdesk/stage/agent",
            "rootfs/hotdesk/runsc",
            "rootfs/hotdesk/machine/upper/",
        ] {
            assert!(names.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name} in {names}");
        }
    }
}
