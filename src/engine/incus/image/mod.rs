//! The guest image in Incus: its names and its archives; in submodules its publication, its volumes, its presence on the members
//! of a cluster, and the removal of old ones.
//!
//! Instances without gVisor have the guest image in their root. The image of others has the launcher only, and the guest image is in
//! a volume of each member, so that a move sends what the computer has written.

mod base;
mod members;
mod prune;
mod publication;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::host::command::{find, host_error, run_with_timeout, tool, version};
use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{self, BASE, IMAGE_BYTES, IMAGE_OWNER, ImageRecord, LAUNCHER};
use crate::incus::sandbox::{FOLDERS, RUNSC};
use crate::{EngineError, EngineResult, Shortage};
use hotdesk_base::hex::hex;
use hotdesk_domain::computer::isolation::Isolation;
pub(super) use members::list_members;
pub use prune::{PruneOutcome, PruneReport, PrunedImage, PrunedVolume};
pub(super) use publication::Publisher;
pub use publication::{ImagePresence, PublicationStep, PublishedImage};

const PUBLISH: &str = "publish the guest image";
const FIND: &str = "find the published image";
/// Characters of an image's digest in its alias.
const ALIAS_DIGITS: usize = 16;
/// Timeout of the archive of an image: some gigabytes, on a busy host.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Names of the members of a volume's archive. The targets of symbolic links stay.
const TRANSFORM: &str = "--transform=flags=rhS;s,^rootfs,backup/volume,";
/// Entries of the guest image's root that the launcher's programs need, which become links into the volume.
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
            Some(runsc) => hex(&Sha256::digest(format!("launcher {} {}", self.id, runsc.version))),
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

    /// Name of the volumes with it, which instances with gVisor mount; `None` where it is in the root of the instance.
    pub(super) fn base(&self) -> Option<String> {
        self.runsc.as_ref().map(|_| documents::base_name(&self.id))
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
        Ok(ImageRecord { fingerprint, bytes: bytes.unwrap_or_default(), base: self.base() })
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
        let mut tar = Tarball::new(scratch)?;
        // Members keep the archive of an image. The fastest compression: each of them unpacks it.
        tar.option("--use-compress-program=gzip -1").add(staged.path(), &["metadata.yaml"]);
        let bytes = match &self.runsc {
            None => {
                tar.add(&self.folder, &["rootfs"]).add(staged.path(), &["rootfs/usr/bin/hotdesk"]);
                self.bytes.saturating_add(stage(staged.path(), agent).map_err(&failed)?)
            }
            Some(runsc) => {
                tar.add(staged.path(), &["rootfs"]);
                stage_launcher(staged.path(), agent, runsc, &self.folder).map_err(&failed)?
            }
        };
        Ok((tar.write()?, bytes))
    }

    /// Makes the archive of a volume with the guest image, in the form of a backup of Incus. It is sent once and not kept, so it is
    /// not compressed. Blocks.
    fn base_archive(&self, pool: &str, scratch: &Path) -> EngineResult<tempfile::NamedTempFile> {
        let failed = host_error(PUBLISH, scratch);
        let staged = tempfile::tempdir_in(scratch).map_err(&failed)?;
        fs::create_dir(staged.path().join("backup")).map_err(&failed)?;
        let index = documents::base_index(pool).to_string();
        fs::write(staged.path().join("backup/index.yaml"), index).map_err(&failed)?;
        let mut tar = Tarball::new(scratch)?;
        tar.option(TRANSFORM).add(staged.path(), &["backup/index.yaml"]).add(&self.folder, &["rootfs"]);
        tar.write()
    }
}

/// An archive in a temporary file.
#[derive(Debug)]
struct Tarball {
    file: tempfile::NamedTempFile,
    tar: Command,
}

impl Tarball {
    fn new(scratch: &Path) -> EngineResult<Self> {
        let file = tempfile::NamedTempFile::new_in(scratch).map_err(host_error(PUBLISH, scratch))?;
        let mut tar = tool("tar");
        tar.args(["--numeric-owner", "--xattrs", "--xattrs-include=*"]).arg("-cf").arg(file.path());
        Ok(Self { file, tar })
    }

    fn option(&mut self, option: &str) -> &mut Self {
        self.tar.arg(option);
        self
    }

    /// Adds entries of a folder. They are read by [`Self::write`].
    fn add(&mut self, folder: &Path, entries: &[&str]) -> &mut Self {
        self.tar.arg("-C").arg(folder).args(entries);
        self
    }

    /// Writes the archive. Blocks.
    fn write(mut self) -> EngineResult<tempfile::NamedTempFile> {
        let (status, _, stderr) = run_with_timeout(PUBLISH, &mut self.tar, None, ARCHIVE_TIMEOUT)?;
        if status.success() {
            return Ok(self.file);
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

/// [`stage`] for an image with the launcher only; returns the bytes of the programs. Its tools and libraries are those of the guest
/// image, which is mounted at [`BASE`] before the launcher starts, and which no guest can change.
fn stage_launcher(folder: &Path, agent: &AgentFile, runsc: &Runsc, image: &Path) -> io::Result<u64> {
    write_metadata(folder)?;
    let root = folder.join("rootfs");
    fs::create_dir_all(root.join(BASE.trim_start_matches('/')))?;
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
    fn an_image_for_gvisor_has_the_launcher_and_the_guest_image_is_in_a_volume() {
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
        assert_eq!((plain.key(), plain.base()), (plain.id.clone(), None));
        let base = sandbox.base().unwrap();
        assert!(
            base.len() < 64 && sandbox.id.starts_with(base.trim_start_matches("hotdesk-base-")),
            "{base}"
        );
        assert_eq!(plain.clone().with_runsc(runsc("2")).base(), Some(base), "it does not depend on runsc");
        for other in [&plain, &plain.clone().with_runsc(runsc("2"))] {
            assert_ne!(sandbox.alias(), other.alias());
        }
        let agent = AgentFile { path: program.clone(), digest: "d".to_owned() };
        let (archive, bytes) = sandbox.archive(&agent, temp.path()).unwrap();
        assert_eq!(bytes, 10, "the programs only");
        let listed = |archive: &Path| {
            let mut list = tool("tar");
            list.arg("-tvf").arg(archive);
            let (status, names, _) = run_with_timeout("list", &mut list, None, ARCHIVE_TIMEOUT).unwrap();
            assert!(status.success());
            names
        };
        let names = listed(archive.path());
        for name in [
            "metadata.yaml",
            "rootfs/base/",
            "rootfs/bin -> base/bin",
            "rootfs/usr -> base/usr",
            "rootfs/hotdesk/stage/agent",
            "rootfs/hotdesk/runsc",
            "rootfs/hotdesk/machine/upper/",
        ] {
            assert!(names.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name} in {names}");
        }
        assert!(!names.contains("usr/bin/true"), "{names}");

        let volume = sandbox.base_archive("desks", temp.path()).unwrap();
        let names = listed(volume.path());
        // Incus reads the index first.
        assert!(names.lines().next().unwrap().ends_with(" backup/index.yaml"), "{names}");
        for name in ["backup/volume/usr/bin/true", "backup/volume/bin -> usr/bin"] {
            assert!(names.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name} in {names}");
        }
    }
}
