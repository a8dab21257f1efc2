//! OCI layouts of images that a test makes.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use hotdesk::base::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

pub(in crate::templates) const OS_RELEASE: &str = "ID=debian\nPRETTY_NAME=\"Debian of the test\"\n";

/// An entry of a layer.
pub(in crate::templates) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) kind: EntryType,
    /// Content, or the target of a link.
    pub(super) content: &'a [u8],
    pub(super) mode: u32,
    pub(super) owner: u64,
}

pub(in crate::templates) const fn file<'a>(path: &'a str, content: &'a [u8]) -> File<'a> {
    File { path, kind: EntryType::Regular, content, mode: 0o644, owner: 0 }
}

pub(super) const fn folder(path: &str) -> File<'_> {
    File { path, kind: EntryType::Directory, content: b"", mode: 0o755, owner: 0 }
}

pub(in crate::templates) const fn link<'a>(path: &'a str, kind: EntryType, target: &'a str) -> File<'a> {
    File { path, kind, content: target.as_bytes(), mode: 0o777, owner: 0 }
}

/// The smallest image that an import accepts.
pub(in crate::templates) fn debian() -> Vec<File<'static>> {
    vec![
        file("usr/lib/os-release", OS_RELEASE.as_bytes()),
        link("etc/os-release", EntryType::Symlink, "../usr/lib/os-release"),
        link("bin", EntryType::Symlink, "usr/bin"),
        file("usr/bin/bash", b"x"),
        file("usr/bin/apt-get", b"x"),
        file("usr/bin/dpkg", b"x"),
    ]
}

/// A layer as a tar archive. The crate would refuse some of the names.
pub(in crate::templates) fn layer(files: &[File<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for File { path, kind, content, mode, owner } in files {
        let mut header = Header::new_gnu();
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_uid(*owner);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        if is_link {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content);
        }
        let content = if is_link { &b""[..] } else { content };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).expect("an entry");
    }
    builder.into_inner().expect("an archive")
}

pub(in crate::templates) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(in crate::templates) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Writes an OCI layout with these layers, and returns the digest of its manifest.
pub(in crate::templates) fn write_layout(at: &Path, architecture: &str, layers: &[Vec<u8>]) -> String {
    fs::create_dir_all(at.join("blobs/sha256")).expect("a folder");
    let blob = |media: &str, bytes: &[u8]| -> Value {
        let digest = digest(bytes);
        fs::write(at.join("blobs/sha256").join(&digest[7..]), bytes).expect("a blob");
        json!({"mediaType": format!("application/vnd.oci.image.{media}"), "digest": digest, "size": bytes.len()})
    };
    let config =
        blob("config.v1+json", json!({"architecture": architecture, "os": "linux"}).to_string().as_bytes());
    let layers: Vec<Value> = layers.iter().map(|bytes| blob("layer.v1.tar", bytes)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers
    });
    let manifest = blob("manifest.v1+json", manifest.to_string().as_bytes());
    fs::write(at.join("index.json"), json!({"schemaVersion": 2, "manifests": [manifest]}).to_string())
        .expect("an index");
    fs::write(at.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").expect("a file");
    manifest["digest"].as_str().expect("a digest").to_owned()
}

pub(in crate::templates) fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
