//! OCI image layouts: a folder, or an archive with one (OCI image specification, `image-layout.md`), or a Docker archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Outcome};
use hotdesk_base::hex::hex;

mod docker_archive;

/// Most bytes of an index, a manifest or a configuration. Registries accept manifests of 4 MiB.
pub const MAX_DOCUMENT: u64 = 4 << 20;
/// Most layers of an image: container engines make at most 127.
const MAX_LAYERS: usize = 128;
/// Most members of an archive: four for each layer of an old archive, and some more.
const MAX_MEMBERS: usize = 10_000;
/// Most indices above a manifest. Two are usual: that of the layout, and one of platforms.
const MAX_INDICES: usize = 4;
/// The document of an OCI layout.
const INDEX: &str = "index.json";
/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reference to a blob by its digest.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// Its media type.
    #[serde(rename = "mediaType", default)]
    pub media_type: String,
    /// `sha256:` and the digest.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
    /// What the image runs on.
    pub platform: Option<Platform>,
    /// Where it is in a Docker archive; absent where its digest says it.
    #[serde(skip)]
    pub member: Option<String>,
}

/// What an image runs on.
#[derive(Clone, Debug, Deserialize)]
pub struct Platform {
    /// Architecture, in Go's words.
    pub architecture: String,
    /// Operating system.
    pub os: String,
}

/// Images for several platforms.
#[derive(Debug, Deserialize)]
pub struct Index {
    /// The images, or further indices.
    pub manifests: Vec<Descriptor>,
}

/// One image.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    /// Its configuration, whose first fields are those of [`Platform`].
    pub config: Descriptor,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// An image of this host's platform.
#[derive(Debug)]
pub struct Image {
    /// Digest of its manifest; in a Docker archive, of its configuration.
    pub digest: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// Where the files of a layout are.
#[derive(Debug)]
pub enum Layout {
    /// In a folder.
    Folder(PathBuf),
    /// In an archive, by their names: first byte and length.
    Archive(PathBuf, BTreeMap<String, (u64, u64)>),
}

impl Layout {
    /// Opens a layout.
    ///
    /// # Errors
    /// When the path has none.
    pub fn open(path: &Path) -> Outcome<Self> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
        if path.is_dir() {
            if path.join(INDEX).is_file() {
                return Ok(Self::Folder(path.to_owned()));
            }
            return Err(no_layout(path));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mut start = [0; GZIP.len()];
        if file.read_exact(&mut start).is_ok() && start == GZIP {
            return Err(format!("{} is compressed: unpack it with gunzip first", path.display()).into());
        }
        file.rewind().map_err(failed)?;
        let mut members = BTreeMap::new();
        let mut archive = tar::Archive::new(BufReader::new(file));
        // Raw entries: the crate would read an extension of any claimed size into memory. Names of layouts need none.
        for entry in archive.entries_with_seek().map_err(failed)?.raw(true) {
            let entry = entry.map_err(|error| format!("{} is no tar archive: {error}", path.display()))?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            if members.len() >= MAX_MEMBERS {
                return Err(format!("{} has more than {MAX_MEMBERS} members", path.display()).into());
            }
            if entry.header().entry_type().is_file() {
                members.insert(name, (entry.raw_file_position(), entry.size()));
            }
        }
        if [INDEX, docker_archive::MANIFEST].iter().any(|name| members.contains_key(*name)) {
            Ok(Self::Archive(path.to_owned(), members))
        } else {
            Err(no_layout(path))
        }
    }

    /// Finds the image of this host's platform.
    ///
    /// # Errors
    /// When there is none, or more than one; when a document is damaged.
    pub fn image(&self) -> Outcome<Image> {
        // Docker 25 and later write both.
        if matches!(self, Self::Archive(_, members) if !members.contains_key(INDEX)) {
            return docker_archive::image(self);
        }
        let mut index: Index = parse(INDEX, &self.document(INDEX, None)?)?;
        for _ in 0..MAX_INDICES {
            let chosen = choose(&index)?;
            let text = self.document(&blob_name(&chosen.digest)?, Some(&chosen.digest))?;
            if is_index(&chosen.media_type) {
                index = parse(&chosen.digest, &text)?;
                continue;
            }
            let Manifest { config, layers } = parse(&chosen.digest, &text)?;
            check_layer_count(layers.len())?;
            let text = self.document(&blob_name(&config.digest)?, Some(&config.digest))?;
            check_platform(&parse(&config.digest, &text)?)?;
            return Ok(Image { digest: chosen.digest, layers });
        }
        Err("the layout has too many indices above its image".to_owned().into())
    }

    /// Opens a layer after a check of its size and its digest.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn layer(&self, layer: &Descriptor) -> Outcome<impl Read + use<>> {
        let failed = |error: io::Error| format!("cannot read the layer {}: {error}", layer.digest);
        let name = layer.member.clone().map_or_else(|| blob_name(&layer.digest), Ok)?;
        let (mut file, start, size) = self.open_member(&name)?;
        if size != layer.size {
            return Err(format!(
                "the layer {} has {size} bytes, and its manifest says {}",
                layer.digest, layer.size
            )
            .into());
        }
        let mut sum = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut content = (&file).take(size);
        loop {
            let count = content.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            sum.update(&buffer[..count]);
        }
        check_digest(&layer.digest, &sum.finalize())?;
        // The same file, whatever has its name by now.
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        Ok(file.take(size))
    }

    /// The bytes of a member of an archive; `None` when it has no such member.
    fn member_size(&self, name: &str) -> Option<u64> {
        match self {
            Self::Folder(_) => None,
            Self::Archive(_, members) => members.get(name).map(|(_, size)| *size),
        }
    }

    /// Reads a document, and checks its digest.
    fn document(&self, name: &str, digest: Option<&str>) -> Outcome<Vec<u8>> {
        let (content, _, size) = self.open_member(name)?;
        if size > MAX_DOCUMENT {
            return Err(format!("{name} has {size} bytes, and at most {MAX_DOCUMENT} are possible").into());
        }
        let mut text = Vec::new();
        content.take(size).read_to_end(&mut text).map_err(|error| format!("cannot read {name}: {error}"))?;
        if let Some(digest) = digest {
            check_digest(digest, &Sha256::digest(&text))?;
        }
        Ok(text)
    }

    /// Opens a member; returns its file, and its first byte and length there.
    fn open_member(&self, name: &str) -> Outcome<(File, u64, u64)> {
        let failed = |path: &Path, error: io::Error| {
            Failure::Failed(format!("cannot read {}: {error}", path.display()))
        };
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                let file = File::open(&path).map_err(|error| failed(&path, error))?;
                let size = file.metadata().map_err(|error| failed(&path, error))?.len();
                Ok((file, 0, size))
            }
            Self::Archive(path, members) => {
                let Some((start, size)) = members.get(name) else {
                    return Err(format!("{} has no {name}", path.display()).into());
                };
                let mut file = File::open(path).map_err(|error| failed(path, error))?;
                file.seek(SeekFrom::Start(*start)).map_err(|error| failed(path, error))?;
                Ok((file, *start, *size))
            }
        }
    }
}

/// Says what to do with a path that has no layout.
fn no_layout(path: &Path) -> Failure {
    let shown = path.display();
    let has = |name: &str| path.join(name).is_file() || path.file_name().is_some_and(|own| own == name);
    let text = if has("Dockerfile") || has("Containerfile") {
        format!(
            "{shown} is not built here: run `docker build -t NAME .` and `docker save NAME -o FILE`, and import the FILE"
        )
    } else if has("devcontainer.json") || path.join(".devcontainer").is_dir() {
        format!(
            "{shown}: a devcontainer.json is not read: build its image, and import what `docker save` writes"
        )
    } else {
        format!(
            "{shown} has no index.json of an OCI image, nor is it an archive of `docker save`: write it with `docker save`, \
             `podman save`, or `skopeo copy ... oci-archive:FILE`"
        )
    };
    text.into()
}

/// Whether a media type is that of an index.
pub fn is_index(media_type: &str) -> bool {
    media_type.ends_with("image.index.v1+json") || media_type.ends_with("manifest.list.v2+json")
}

/// Chooses the image of this host's platform, or the only one.
///
/// # Errors
/// When there is none, or more than one.
pub fn choose(index: &Index) -> Outcome<Descriptor> {
    let fits =
        |image: &&Descriptor| image.platform.as_ref().is_none_or(|platform| check_platform(platform).is_ok());
    let found: Vec<&Descriptor> = index.manifests.iter().filter(fits).collect();
    match found[..] {
        [image] => Ok(image.clone()),
        [] => Err(format!("the source has no image for linux/{}", architecture()).into()),
        _ => Err(format!("the source has {} images: save one alone", found.len()).into()),
    }
}

/// Refuses an image with too many layers.
///
/// # Errors
/// When it has more than container engines make.
pub fn check_layer_count(count: usize) -> Outcome<()> {
    if count <= MAX_LAYERS {
        return Ok(());
    }
    Err(format!("the image has {count} layers, and at most {MAX_LAYERS} are possible").into())
}

/// Refuses an image of another platform.
fn check_platform(platform: &Platform) -> Outcome<()> {
    let Platform { architecture: own, os } = platform;
    if os == "linux" && own == architecture() {
        return Ok(());
    }
    Err(format!("the image is for {os}/{own}, and this host runs linux/{}", architecture()).into())
}

/// The architecture of this host, in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The name of a blob in a layout.
///
/// # Errors
/// When the digest is none of SHA-256: it becomes a part of a path.
pub fn blob_name(digest: &str) -> Outcome<String> {
    let name = digest.strip_prefix("sha256:").filter(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    match name {
        Some(name) => Ok(format!("blobs/sha256/{name}")),
        None => Err(format!("{digest:?} is no digest of SHA-256").into()),
    }
}

/// Parses a document.
///
/// # Errors
/// When it is no JSON of this kind.
pub fn parse<'a, T: Deserialize<'a>>(name: &str, text: &'a [u8]) -> Outcome<T> {
    serde_json::from_slice(text)
        .map_err(|error| format!("{name} is no document of an OCI image: {error}").into())
}

fn check_digest(wanted: &str, found: &[u8]) -> Outcome<()> {
    let found = format!("sha256:{}", hex(found));
    if found == wanted {
        return Ok(());
    }
    Err(format!("the image is damaged: {wanted} has the digest {found}").into())
}

/// Returns the path of a blob in a layout that is being made, and makes its folder.
///
/// # Errors
/// When the digest is none of SHA-256, or the disk fails.
pub fn blob_path(layout: &Path, digest: &str) -> Outcome<PathBuf> {
    let path = layout.join(blob_name(digest)?);
    let folder = path.parent().unwrap_or(layout);
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    Ok(path)
}
