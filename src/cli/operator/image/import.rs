//! `hotdesk image import`, `list` and `remove`: images on which templates can be built.
//!
//! ```text
//!   source --> layout --> <data>/bases/.<name>.new/rootfs -- check, sync, rename --> <data>/bases/<name>
//! ```
//! The image is extracted and never run here. Computers of builds install the desktop on it (docs/templates.md, "base").

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::Mode;
use serde_json::json;

use super::layout::Layout;
use super::registry;
use super::unpack::RootFolder;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_base::hex::hex;
use hotdesk_domain::computer::template::name::kebab;
use hotdesk_engine::{BASE_RECORD, BASES, BaseFolder, BaseRecord, discard_base, remove_tree};
use sha2::{Digest, Sha256};

/// Part of the id of every imported image. It changes when a later version makes other files of the same image.
const IMPORT_VERSION: &str = "1";
/// Most bytes of a file that is read from an image.
const MAX_TEXT: u64 = 64 * 1024;
/// Distributions on which the desktop can be installed.
const SYSTEMS: [&str; 2] = ["debian", "ubuntu"];
/// Earliest glibc with which the agent starts: it is a program for Debian 12.
const MIN_GLIBC: (u32, u32) = (2, 36);
/// List of an image's packages (dpkg(1)), and most bytes of it: 5000 packages take 8 MB.
const PACKAGES: &str = "var/lib/dpkg/status";
const MAX_PACKAGES: u64 = 64 << 20;
/// Programs that an image must have.
const PROGRAMS: [&str; 3] = ["bin/bash", "usr/bin/apt-get", "usr/bin/dpkg"];
/// Files over which an engine mounts those of each computer, and what an image has in their place.
const MOUNT_POINTS: [(&str, &str); 3] = [
    ("etc/resolv.conf", ""),
    ("etc/hostname", "hotdesk\n"),
    ("etc/hosts", "127.0.0.1 localhost hotdesk\n::1 localhost\n"),
];
const FOLDERS: [&str; 6] = ["dev", "proc", "root", "run", "sys", "var/log"];
/// Files by which a computer is known.
const IDENTITY: [&str; 2] = ["etc/machine-id", "var/lib/dbus/machine-id"];

/// Imports an image under a name, of at most `most_bytes`. One of this name is replaced; templates keep what they were built from.
///
/// # Errors
/// What is wrong with the image or the host. Nothing is left of the attempt.
pub fn import(data_dir: &Path, name: &str, source: &str, most_bytes: u64) -> Outcome<()> {
    let name = parse_name(name)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::Failed("run it as root: the files of an image have several owners".to_owned()));
    }
    // Users of guests read and traverse what is made without a mode of the image.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let bases = BaseFolder::lock(data_dir)?;
    let failed = |error: io::Error| format!("cannot write to {}: {error}", bases.path().display());
    let fresh =
        tempfile::Builder::new().prefix(".").suffix(".new").tempdir_in(bases.path()).map_err(failed)?;
    // A removal by the crate would fail for folders that are nested too deep.
    let fresh = fresh.keep();
    let imported = fill(&fresh, source, most_bytes).and_then(|record| {
        bases.publish(&fresh, &name)?;
        Ok(record)
    });
    // It has the earlier image, the rest of a failed attempt, or nothing.
    let removed = discard_base(&fresh);
    let record = imported.and_then(|record| Ok(removed.map(|()| record)?)).map_err(printable)?;
    output::line(&format!(
        "imported {name}: {}, {} MB. Templates are built on it with `base: {name}`",
        record.system,
        record.bytes / 1_000_000
    ))
}

/// Fills the folder of an image: its files and its record.
fn fill(folder: &Path, source: &str, most_bytes: u64) -> Outcome<BaseRecord> {
    let progress = Progress::waiting("reading the image");
    let record = extract(folder, source, most_bytes)?;
    drop(progress);
    let (path, text) = (folder.join(BASE_RECORD), serde_json::to_string(&record));
    let text = text.map_err(|error| error.to_string())?;
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(record)
}

/// A failure without control characters: an image chooses parts of its text, and the terminal is root's.
fn printable(failure: Failure) -> Failure {
    let clean = |text: String| text.replace(char::is_control, "?");
    match failure {
        Failure::Usage(text) => Failure::Usage(clean(text)),
        Failure::Failed(text) => Failure::Failed(clean(text)),
        Failure::Interrupted(text) => Failure::Interrupted(clean(text)),
    }
}

/// Extracts an image into `folder/rootfs`, and checks that the desktop can be installed on it.
fn extract(folder: &Path, source: &str, most_bytes: u64) -> Outcome<BaseRecord> {
    let path = Path::new(source);
    let pulled = folder.join("layout");
    let layout = if path.exists() {
        Layout::open(path)?
    } else if source.starts_with(['.', '/']) {
        return Err(format!("{source} does not exist").into());
    } else {
        fs::create_dir(&pulled).map_err(|error| format!("cannot make {}: {error}", pulled.display()))?;
        crate::runtime()?.block_on(registry::pull(source, &pulled, most_bytes))?;
        Layout::open(&pulled)?
    };
    let image = layout.image()?;
    let rootfs = folder.join("rootfs");
    DirBuilder::new()
        .mode(0o755)
        .create(&rootfs)
        .map_err(|error| format!("cannot make {}: {error}", rootfs.display()))?;
    let mut root = RootFolder::open(&rootfs, most_bytes)?;
    for layer in &image.layers {
        root.extract(layout.layer(layer)?)
            .map_err(|failure| format!("layer {}: {}", layer.digest, failure.text()))?;
    }
    if pulled.exists() {
        remove_tree("remove the blobs of an image", &pulled)?;
    }
    let system = check_system(&root)?;
    prepare(&mut root).map_err(|error| format!("cannot change the files of the image: {error}"))?;
    let id = format!("sha256:{}", hex(&Sha256::digest(format!("{IMPORT_VERSION} {}", image.digest))));
    Ok(BaseRecord { id, source: source.to_owned(), system, bytes: most_bytes - root.left_bytes() })
}

/// Returns the distribution's name for itself, if the desktop can be installed there.
fn check_system(root: &RootFolder) -> Outcome<String> {
    let read = |path: &str| {
        root.read(path, MAX_TEXT).map_err(|error| format!("cannot read {path} of the image: {error}"))
    };
    let text = read("etc/os-release")?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let field = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        values.next_back().unwrap_or_default().trim_matches(['"', '\'']).to_owned()
    };
    let ids = format!("{} {}", field("ID"), field("ID_LIKE"));
    let shown: String = field("PRETTY_NAME").chars().filter(|c| !c.is_control()).take(100).collect();
    if !ids.split_whitespace().any(|id| SYSTEMS.contains(&id)) {
        let found = if shown.is_empty() { "no Linux distribution".to_owned() } else { shown };
        return Err(
            format!("the image is {found}: the desktop needs Debian, Ubuntu or a system like them").into()
        );
    }
    for program in PROGRAMS {
        if read(program)?.is_none() {
            return Err(format!("the image has no /{program}, with which the desktop is installed").into());
        }
    }
    let packages = root.read(PACKAGES, MAX_PACKAGES);
    let packages = packages.map_err(|error| format!("cannot read {PACKAGES} of the image: {error}"))?;
    match glibc_version(&String::from_utf8_lossy(&packages.unwrap_or_default())) {
        Some((major, minor)) if (major, minor) < MIN_GLIBC => {
            let (least, least_minor) = MIN_GLIBC;
            let needed = format!("{least}.{least_minor} or later, as in Debian 12 or Ubuntu 24.04");
            Err(format!("the image is {shown} with glibc {major}.{minor}: computers need {needed}").into())
        }
        // The build of an image that does not list it may fail.
        Some(_) | None => Ok(shown),
    }
}

/// Returns the version of glibc in a list of packages.
fn glibc_version(packages: &str) -> Option<(u32, u32)> {
    let mut entries = packages.split("\n\n");
    let library = entries.find(|entry| entry.lines().any(|line| line == "Package: libc6"))?;
    let version = library.lines().find_map(|line| line.strip_prefix("Version: "))?;
    let (major, rest) = version.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Gives an image what engines need, and removes identities of computers.
fn prepare(root: &mut RootFolder) -> io::Result<()> {
    for folder in FOLDERS {
        root.folder(Path::new(folder))?;
    }
    for (path, text) in MOUNT_POINTS {
        root.replace(path, Some(text))?;
    }
    for path in IDENTITY {
        root.replace(path, None)?;
    }
    for name in root.names("etc/ssh")? {
        if name.as_encoded_bytes().starts_with(b"ssh_host_") {
            root.replace(&Path::new("etc/ssh").join(name).to_string_lossy(), None)?;
        }
    }
    Ok(())
}

/// Prints the imported images.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(data_dir: &Path, as_json: bool) -> Outcome<()> {
    let mut images = Vec::new();
    for name in names(&data_dir.join(BASES))? {
        let path = data_dir.join(BASES).join(&name).join(BASE_RECORD);
        let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
        let text = fs::read(&path).map_err(|error| failed(&error))?;
        let record: BaseRecord = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        images.push((name, record));
    }
    if as_json {
        let images: Vec<_> = images
            .iter()
            .map(|(name, BaseRecord { id, source, system, bytes })| {
                json!({"name": name, "id": id, "source": source, "system": system, "bytes": bytes})
            })
            .collect();
        return output::line(&json!({"images": images}).to_string());
    }
    let rows = images.into_iter().map(|(name, record)| {
        vec![name, record.system, format!("{} MB", record.bytes / 1_000_000), record.source]
    });
    output::table(&["NAME", "SYSTEM", "SIZE", "SOURCE"], rows.collect())
}

fn names(bases: &Path) -> Outcome<Vec<String>> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", bases.display());
    let entries = match fs::read_dir(bases) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if kebab(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Removes an imported image. Templates that were built from it keep their layers.
///
/// # Errors
/// When there is none of this name, or the disk fails.
pub fn remove(data_dir: &Path, name: &str) -> Outcome<()> {
    let name = parse_name(name)?;
    // Without the folder there is nothing to lock.
    if data_dir.join(BASES).is_dir() && BaseFolder::lock(data_dir)?.remove(&name)? {
        return Ok(());
    }
    Err(format!("there is no imported image {name} in {}", data_dir.display()).into())
}

fn parse_name(name: &str) -> Outcome<String> {
    kebab(name).map_err(|fault| Failure::Usage(format!("the name of an image {}", fault.message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_glibc_is_that_of_its_package() {
        let list = |version: &str| {
            format!(
                "Package: bash\nVersion: 5.2.15-2+b8\n\nPackage: libc6\nStatus: install ok installed\n\
                 Depends: libgcc-s1\nVersion: {version}\n\nPackage: libc6-dev\nVersion: 9.9-1\n"
            )
        };
        for (version, expected) in [
            ("2.36-9+deb12u10", Some((2, 36))),
            ("2.31-0ubuntu9.17", Some((2, 31))),
            ("2.39-0ubuntu8.6", Some((2, 39))),
            ("3.0", Some((3, 0))),
            ("2", None),
            ("2.x", None),
            ("", None),
        ] {
            assert_eq!(glibc_version(&list(version)), expected, "{version}");
        }
        assert_eq!(glibc_version(""), None);
        assert_eq!(glibc_version("Package: libc6-dev\nVersion: 2.36-9\n"), None);
    }
}
