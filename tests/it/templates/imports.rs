//! OCI images that an operator imports, and templates that are built on them (docs/templates.md, "base").

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path as RoutePath, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use hotdesk::base::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::builds::{build_within, controller, launch, layers, log};
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, image, remove_test_variables};
use crate::harness::sampling::is_full_run;

pub(super) const OS_RELEASE: &str = "ID=debian\nPRETTY_NAME=\"Debian of the test\"\n";
/// Longest build with an installation of the desktop from Debian's packages.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(900);

/// An entry of a layer.
pub(super) struct File<'a> {
    path: &'a str,
    kind: EntryType,
    /// Content, or the target of a link.
    content: &'a [u8],
    mode: u32,
    owner: u64,
}

pub(super) const fn file<'a>(path: &'a str, content: &'a [u8]) -> File<'a> {
    File { path, kind: EntryType::Regular, content, mode: 0o644, owner: 0 }
}

const fn folder(path: &str) -> File<'_> {
    File { path, kind: EntryType::Directory, content: b"", mode: 0o755, owner: 0 }
}

pub(super) const fn link<'a>(path: &'a str, kind: EntryType, target: &'a str) -> File<'a> {
    File { path, kind, content: target.as_bytes(), mode: 0o777, owner: 0 }
}

/// The smallest image that an import accepts.
pub(super) fn debian() -> Vec<File<'static>> {
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
pub(super) fn layer(files: &[File<'_>]) -> Vec<u8> {
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

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Writes an OCI layout with these layers, and returns the digest of its manifest.
pub(super) fn write_layout(at: &Path, architecture: &str, layers: &[Vec<u8>]) -> String {
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

pub(super) fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// Runs `hotdesk image` on a data folder.
fn hotdesk_image(data: &Path, arguments: &[&str]) -> Output {
    // Neither modes of files nor deep folders depend on what the caller has set.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; ulimit -n 256; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hotdesk")]);
    command.args(["--json", "image"]).args(&arguments[..1]).arg("--data-dir").arg(data).args(&arguments[1..]);
    remove_test_variables(&mut command);
    command.output().expect("the program")
}

/// Asserts that an import works; returns the root folder of the image.
#[track_caller]
pub(super) fn import(data: &Path, name: &str, source: &str, more: &[&str]) -> PathBuf {
    let done = hotdesk_image(data, &[&["import", name, source], more].concat());
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    data.join("bases").join(name).join("rootfs")
}

/// The error of an import that is refused. Nothing stays of it.
#[track_caller]
pub(super) fn refusal(data: &Path, source: &str, more: &[&str]) -> String {
    let done = hotdesk_image(data, &[&["import", "bad", source], more].concat());
    assert!(!done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stdout));
    let left: Vec<_> = fs::read_dir(data.join("bases")).map(|entries| entries.collect()).unwrap_or_default();
    assert!(left.is_empty(), "{source}: {left:?}");
    let error = String::from_utf8_lossy(&done.stderr).trim_end().to_owned();
    assert!(!error.contains(char::is_control), "{error:?}");
    error
}

pub(super) fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        Capability::Root.skip("the files of an image have several owners");
    }
    is_root
}

#[test]
fn an_image_is_extracted_as_its_layers_say() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let (data, source) = (temp.path().join("data"), temp.path().join("layout"));
    fs::create_dir(&data).expect("a folder");
    let mut below = debian();
    below.extend([
        folder("opt/whole"),
        file("opt/whole/old", b"old"),
        file("opt/gone/deep/file", b"old"),
        file("opt/stays", b"stays"),
        file("etc/machine-id", b"0123"),
        file("etc/ssh/ssh_host_rsa_key", b"key"),
        link("etc/resolv.conf", EntryType::Symlink, "/run/nowhere"),
        link("abs", EntryType::Symlink, "/opt"),
        File { mode: 0o4755, owner: 12, ..file("usr/bin/su", b"program") },
        link("usr/bin/sudo", EntryType::Link, "usr/bin/su"),
        File { kind: EntryType::Char, ..file("dev/null", b"") },
        file("opt/becomes-folder", b"x"),
    ]);
    let above = [
        file("opt/whole/.wh..wh..opq", b""),
        file("opt/whole/new", b"new"),
        file("opt/.wh.gone", b""),
        file("opt/.wh.never-was", b""),
        // Links of the image lead inside of it, as in a process whose root it is.
        file("abs/by-link", b"inside"),
        folder("opt/becomes-folder"),
        file("opt/becomes-folder/file", b"x"),
    ];
    let zstd = {
        let mut command = Command::new("zstd");
        let plain = temp.path().join("plain");
        fs::write(&plain, layer(&above)).expect("a file");
        command.args(["-q", "-c"]).arg(&plain).output().expect("zstd").stdout
    };
    write_layout(&source, architecture(), &[gzip(&layer(&below)), zstd]);
    let root = import(&data, "tested", &source.to_string_lossy(), &[]);
    let read =
        |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(read("opt/whole/new"), "new");
    assert_eq!(
        (read("opt/stays"), read("opt/by-link"), read("opt/becomes-folder/file")),
        ("stays".into(), "inside".into(), "x".into())
    );
    for gone in [
        "opt/whole/old",
        "opt/gone",
        "dev/null",
        "etc/machine-id",
        "etc/ssh/ssh_host_rsa_key",
        "opt/whole/.wh..wh..opq",
    ] {
        assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone}");
    }
    let mode = |path: &str| fs::metadata(root.join(path)).expect("an entry").mode() & 0o7777;
    assert_eq!((mode(""), mode("opt"), mode("etc/hosts")), (0o755, 0o755, 0o644), "the umask does not count");
    let su = fs::metadata(root.join("usr/bin/su")).expect("a file");
    assert_eq!((su.mode() & 0o7777, su.uid(), su.nlink(), su.mtime()), (0o4755, 12, 2, 1_000_000_000));
    assert_eq!(fs::read_link(root.join("bin")).expect("a link"), Path::new("usr/bin"));
    assert!(fs::symlink_metadata(root.join("etc/resolv.conf")).expect("a file").is_file(), "a mount point");
    let folder = fs::metadata(data.join("bases")).expect("a folder");
    assert_eq!(folder.mode() & 0o777, 0o700, "programs of an image may have set-user bits");

    // The archive of the same layout has the same content, and takes the place of the first.
    let archive = temp.path().join("image.tar");
    let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&source).arg(".").status();
    assert!(packed.expect("tar").success());
    let id = || {
        let listed = hotdesk_image(&data, &["list"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        assert_eq!(listed["images"].as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(
            (&listed["images"][0]["name"], &listed["images"][0]["system"]),
            (&json!("tested"), &json!("Debian of the test"))
        );
        listed["images"][0]["id"].clone()
    };
    let first = id();
    import(&data, "tested", &archive.to_string_lossy(), &[]);
    assert_eq!(id(), first);
    assert!(hotdesk_image(&data, &["remove", "tested"]).status.success());
    assert!(!hotdesk_image(&data, &["remove", "tested"]).status.success(), "it is gone");
    assert_eq!(fs::read_dir(data.join("bases")).expect("a folder").count(), 0);
}

#[test]
fn bad_images_are_refused_and_leave_nothing() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let data = temp.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let with = |files: Vec<File<'static>>| vec![layer(&debian()), layer(&files)];
    let zeros = vec![0; 6_000_000];
    let bomb = gzip(&layer(&[file("a", &zeros), file("b", &zeros)]));
    assert!(bomb.len() < 100_000);
    let whiteouts = gzip(&layer(&[file("a/.wh.b", &zeros), file("a/.wh.c", &zeros)]));
    // Each link leads to the end of the one before: the folders are 360 deep.
    let chain = "d/".repeat(45);
    let deep: Vec<(String, String)> = (0..8)
        .map(|number: usize| match number.checked_sub(1) {
            None => (format!("s{number}"), chain.clone()),
            Some(before) => (format!("s{number}"), format!("s{before}/{chain}")),
        })
        .collect();
    let files: Vec<String> = deep.iter().map(|(_, target)| format!("{target}f")).collect();
    let deep: Vec<File<'_>> = deep
        .iter()
        .zip(&files)
        .flat_map(|((name, target), path)| [file(path, b"x"), link(name, EntryType::Symlink, target)])
        .collect();
    let hidden = [file(".wh.d", b""), file("../outside", b"x")];
    let deep = vec![layer(&debian()), layer(&deep), layer(&hidden)];
    let mut other = debian();
    other[0] = file("usr/lib/os-release", b"ID=alpine\nPRETTY_NAME=\"Alpine \x1b Linux\"\n");
    let without = |name: &str| {
        vec![layer(&debian().into_iter().filter(|file| !file.path.ends_with(name)).collect::<Vec<_>>())]
    };
    let cases: Vec<(&str, Vec<Vec<u8>>, &str)> = vec![
        ("another system", vec![layer(&other)], "the image is Alpine  Linux: the desktop needs Debian"),
        ("no system", vec![layer(&[file("a", b"x")])], "the image is no Linux distribution"),
        ("no apt-get", without("apt-get"), "the image has no /usr/bin/apt-get"),
        (
            "an old system",
            with(vec![file("var/lib/dpkg/status", b"Package: libc6\nVersion: 2.35-0ubuntu3.11\n")]),
            "the image is Debian of the test with glibc 2.35: computers need 2.36 or later",
        ),
        ("a path upwards", with(vec![file("../outside", b"x")]), "../outside leads out of the image"),
        ("a path upwards inside", with(vec![file("opt/../../outside", b"x")]), "leads out of the image"),
        (
            "a hard link upwards",
            with(vec![link("x", EntryType::Link, "../../../etc/shadow")]),
            "leads out of the image",
        ),
        (
            "a hard link of the host",
            with(vec![link("x", EntryType::Link, "/etc/shadow")]),
            "which is no file of the image",
        ),
        (
            "a hard link through a link",
            with(vec![
                link("up", EntryType::Symlink, "../../../../../../etc"),
                link("x", EntryType::Link, "up/shadow"),
            ]),
            "which is no file of the image",
        ),
        ("a hidden parent", with(vec![file("opt/.wh...", b"")]), "it hides no name"),
        ("a foreign id", with(vec![File { owner: 70_000, ..file("x", b"") }]), "ids end at 65535"),
        (
            "a large file",
            with(vec![file("x", Box::leak(zeros.repeat(2).into_boxed_slice()))]),
            "larger than --max-mb allows",
        ),
        ("a bomb", vec![layer(&debian()), bomb], "larger than --max-mb allows"),
        ("a bomb of names that hide", vec![layer(&debian()), whiteouts], "larger than --max-mb allows"),
        ("deep folders", deep.clone(), "../outside leads out of the image"),
        (
            "deep folders that stay",
            [&deep[..2], &[layer(&hidden[1..])]].concat(),
            "../outside leads out of the image",
        ),
        (
            "a pipe with content",
            with(vec![File { kind: EntryType::Fifo, ..file("x", b"bytes") }]),
            "x is no file and has 5 bytes",
        ),
        (
            "a foreign id in an attribute",
            with(vec![
                File { kind: EntryType::XHeader, ..file("x", b"15 uid=3000000\n") },
                File { mode: 0o4755, ..file("usr/bin/su", b"x") },
            ]),
            "usr/bin/su belongs to 3000000:0",
        ),
        ("a name for a terminal", with(vec![file("../\x1b[2J", b"")]), "../?[2J leads out of the image"),
        ("no archive", vec![b"no archive at all".repeat(100)], "a layer is no tar archive"),
        (
            "an extension without an end",
            with(vec![File {
                kind: EntryType::GNULongName,
                ..file("x", Box::leak(vec![b'x'; 2 << 20].into_boxed_slice()))
            }]),
            "too long",
        ),
    ];
    for (what, layers, expected) in cases {
        let source = temp.path().join("layout");
        write_layout(&source, architecture(), &layers);
        let error = refusal(&data, &source.to_string_lossy(), &["--max-mb", "10"]);
        assert!(error.contains(expected), "{what}: {error}");
        fs::remove_dir_all(&source).expect("a folder");
    }
    assert!(!temp.path().join("outside").exists() && !data.join("outside").exists());

    let source = temp.path().join("layout");
    let layers = [layer(&debian())];
    write_layout(&source, "s390x", &layers);
    let at = source.to_string_lossy().into_owned();
    assert!(refusal(&data, &at, &[]).contains("the image is for linux/s390x"));
    // A blob that is not what its name says, and one of another size.
    write_layout(&source, architecture(), &layers);
    let blob = source.join("blobs/sha256").join(&digest(&layers[0])[7..]);
    let mut damaged = layers[0].clone();
    damaged[600] ^= 1;
    fs::write(&blob, &damaged).expect("a blob");
    assert!(refusal(&data, &at, &[]).contains("the image is damaged"));
    damaged.push(0);
    fs::write(&blob, &damaged).expect("a blob");
    assert!(refusal(&data, &at, &[]).contains("and its manifest says"));
    let index = json!({"manifests": [{"digest": "sha256:../../../etc/shadow", "size": 1}]});
    fs::write(source.join("index.json"), index.to_string()).expect("an index");
    assert!(refusal(&data, &at, &[]).contains("is no digest of SHA-256"));

    let empty = temp.path().join("empty");
    for (name, expected) in
        [("Dockerfile", "docker save"), ("devcontainer.json", "is not read"), ("x", "index.json")]
    {
        fs::create_dir(&empty).expect("a folder");
        fs::write(empty.join(name), "FROM debian\n").expect("a file");
        assert!(refusal(&data, &empty.to_string_lossy(), &[]).contains(expected), "{name}");
        fs::remove_dir_all(&empty).expect("a folder");
    }
    assert!(refusal(&data, "/does/not/exist", &[]).contains("/does/not/exist does not exist"));
    assert!(refusal(&data, "no reference!", &[]).contains("no reference to an image"));
    assert_eq!(hotdesk_image(&data, &["import", "Bad Name", "/"]).status.code(), Some(2));
}

/// A registry with one image of a layout, at the path `team/debian`.
pub(super) struct Registry {
    pub(super) address: String,
    _serving: tokio::task::JoinHandle<()>,
}

impl Registry {
    #[allow(clippy::disallowed_methods, reason = "the test ends with this task")]
    pub(super) async fn serve(layout: PathBuf) -> Self {
        type Layout = State<Arc<PathBuf>>;
        async fn manifest(State(layout): Layout, RoutePath(tag): RoutePath<String>) -> impl IntoResponse {
            let name = tag.strip_prefix("sha256:").map(str::to_owned).or_else(|| {
                let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).ok()?).ok()?;
                (tag == "1")
                    .then(|| index["manifests"][0]["digest"].as_str().map(|digest| digest[7..].to_owned()))?
            });
            match name.and_then(|name| fs::read(layout.join("blobs/sha256").join(name)).ok()) {
                Some(text) => {
                    Ok(([(header::CONTENT_TYPE, "application/vnd.oci.image.manifest.v1+json")], text))
                }
                None => Err(StatusCode::NOT_FOUND),
            }
        }
        async fn blob(State(layout): Layout, RoutePath(digest): RoutePath<String>) -> impl IntoResponse {
            let name = digest.trim_start_matches("sha256:").to_owned();
            fs::read(layout.join("blobs/sha256").join(name)).map_err(|_| StatusCode::NOT_FOUND)
        }
        let router = Router::new()
            .route("/v2/", get(|| async {}))
            .route("/v2/team/debian/manifests/{tag}", get(manifest))
            .route("/v2/team/debian/blobs/{digest}", get(blob))
            .with_state(Arc::new(layout));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serving = async { axum::serve(listener, router).await.expect("a server") };
        Self { address, _serving: tokio::spawn(serving) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_from_a_registry() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let (data, layout) = (temp.path().join("data"), temp.path().join("layout"));
    fs::create_dir(&data).expect("a folder");
    let layers = [gzip(&layer(&debian()))];
    let manifest = write_layout(&layout, architecture(), &layers);
    let registry = Registry::serve(layout.clone()).await;
    let reference = format!("{}/team/debian:1", registry.address);
    let root = import(&data, "pulled", &reference, &[]);
    assert_eq!(fs::read_to_string(root.join("usr/lib/os-release")).expect("a file"), OS_RELEASE);
    assert_eq!(fs::read_dir(data.join("bases/pulled")).expect("a folder").count(), 2, "no blob stays");
    assert!(hotdesk_image(&data, &["remove", "pulled"]).status.success());

    for missing in ["team/debian:2", "team/other:1"] {
        let error = refusal(&data, &format!("{}/{missing}", registry.address), &[]);
        assert!(error.contains("cannot pull"), "{error}");
    }
    let blobs = layout.join("blobs/sha256");
    let (blob, mut damaged) = (blobs.join(&digest(&layers[0])[7..]), layers[0].clone());
    damaged[20] ^= 1;
    fs::write(&blob, &damaged).expect("a blob");
    let error = refusal(&data, &reference, &[]);
    assert!(error.contains("cannot pull sha256:"), "{error}");
    damaged.extend([0; 1000]);
    fs::write(&blob, &damaged).expect("a blob");
    assert!(refusal(&data, &reference, &[]).contains("it is longer than the"));
    fs::write(&blob, &layers[0]).expect("a blob");
    let mut text = fs::read_to_string(blobs.join(&manifest[7..])).expect("a manifest");
    text.push(' ');
    fs::write(blobs.join(&manifest[7..]), text).expect("a manifest");
    let _error = refusal(&data, &format!("{}/team/debian@{manifest}", registry.address), &[]);
}

/// Writes a layout with the small guest image, without a folder of its root, and a layer with files of the test and more.
fn layout_of_guest_image(temp: &Path, more: &[File<'_>]) -> PathBuf {
    let (tar, source) = (temp.join("layer.tar"), temp.join("layout"));
    let rootfs = image().join("rootfs");
    let packed = Command::new("tar")
        .arg("-cf")
        .arg(&tar)
        .arg("--exclude=./srv")
        .arg("-C")
        .arg(rootfs)
        .arg(".")
        .status();
    assert!(packed.expect("tar").success());
    let above = layer(&[
        file("opt/base/marker", b"of the base\n"),
        file("usr/lib/os-release", OS_RELEASE.as_bytes()),
    ]);
    write_layout(&source, architecture(), &[fs::read(&tar).expect("a layer"), above, layer(more)]);
    fs::remove_file(&tar).expect("a file");
    source
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_built_on_an_imported_image_with_the_desktop_above_it() {
    let Some(controller) = controller().await else { return };
    let status = build_within(INSTALL_TIMEOUT, &controller, "none@1.0.0", "base: tested").await;
    let error = status["error"].as_str().unwrap_or_default();
    assert!(error.contains("there is no imported image tested"), "{status}");

    let temp = tempfile::tempdir().expect("a folder");
    let apt = File { mode: 0o755, ..file("usr/bin/apt-get", b"#!/bin/sh\necho no sources >&2\nexit 1\n") };
    let source = layout_of_guest_image(temp.path(), &[apt]);
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    let status = build_within(INSTALL_TIMEOUT, &controller, "broken@1.0.0", "base: tested").await;
    assert_eq!(status["status"], "failed", "{status}");
    let opened = controller.post("/templates/default/broken/1.0.0/debug", json!({})).await;
    assert_eq!(opened.status, 409, "{}", opened.body);
    assert!(opened.body.to_string().contains("before its base had a desktop"), "{}", opened.body);

    let source = layout_of_guest_image(temp.path(), &[]);
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    // A program of the image leaves a package for later builds, as apt would.
    let more = "base: tested\nbuild: {run: ['cat /opt/base/marker; mkdir -p /var/tmp/hotdesk-downloads/apt; \
                echo x >/var/tmp/hotdesk-downloads/apt/planted_1_all.deb']}";
    let status = build_within(INSTALL_TIMEOUT, &controller, "lab@1.0.0", more).await;
    let lines = log(&controller, "lab@1.0.0").await;
    if is_unreachable(&status) {
        return;
    }
    assert_eq!(status["status"], "ready", "{status} {lines:#?}");
    assert!(lines.iter().any(|entry| entry["line"] == "of the base"), "{lines:#?}");
    // One is of the first image.
    assert_eq!(layers(&controller).len(), 4);
    check_computer(&controller, "lab@1.0.0").await;
    let downloads = controller.data_dir().join("downloads");
    let kept: Vec<_> = fs::read_dir(downloads).expect("a folder").collect();
    assert!(kept.is_empty(), "no build on another image gets what this one left: {kept:?}");

    // Templates share the layers of the image, also when it is imported again or gone.
    import(&controller.data_dir(), "tested", &source.to_string_lossy(), &[]);
    let status = build_within(INSTALL_TIMEOUT, &controller, "lab@1.0.1", "base: tested").await;
    assert_eq!(status["status"], "ready", "{status}");
    assert_eq!(layers(&controller).len(), 4);
    assert!(hotdesk_image(&controller.data_dir(), &["remove", "tested"]).status.success());
    check_computer(&controller, "lab@1.0.1").await;
}

/// Launches a template, and looks at the base and the desktop.
async fn check_computer(controller: &RunningController, template: &str) {
    let workspace = controller.workspace(&template.replace(['@', '.'], "-")).await;
    let launched = launch(controller, &workspace, "one", template).await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    let seen = controller.bash(&id, "cat /opt/base/marker; . /etc/os-release; echo $PRETTY_NAME; ls -d /srv 2>&1; wmctrl -m | head -n1").await;
    assert_eq!(
        seen,
        "of the base\nDebian of the test\nls: cannot access '/srv': No such file or directory\nName: Openbox\n"
    );
}

/// Whether a build could not reach the registries. The test is skipped then.
fn is_unreachable(status: &Value) -> bool {
    let error = status["error"].as_str().unwrap_or_default();
    let signs = ["Could not resolve", "Temporary failure", "Unable to fetch", "Failed to fetch"];
    let is_unreachable = signs.iter().any(|sign| error.contains(sign));
    if is_unreachable {
        Capability::Registries.skip(format_args!("a build cannot download packages: {error}"));
    }
    is_unreachable
}

/// Installs the desktop on a distribution as its makers pack it, without any part of the desktop. `options`
/// are those of mmdebstrap(1), and `sources` its package sources; none for its own.
async fn check_minimal(controller: &RunningController, suite: &str, options: &[&str], sources: Option<&str>) {
    let temp = tempfile::tempdir().expect("a folder");
    let (tar, source) = (temp.path().join("layer.tar"), temp.path().join("layout"));
    // A host behind a proxy that inspects TLS needs its authorities for PyPI.
    let authorities = "/etc/ssl/certs/ca-certificates.crt";
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", "--customize-hook=mkdir -p \"$1/opt/base\"; echo of the base >\"$1/opt/base/marker\""])
        .arg(format!("--customize-hook=cp {authorities} \"$1/opt/ca.crt\"; printf '[global]\\ncert = /opt/ca.crt\\n' >\"$1/etc/pip.conf\""))
        .args(["--customize-hook=sed -i 's/^PRETTY_NAME=.*/PRETTY_NAME=\"Debian of the test\"/' \"$1/usr/lib/os-release\"; rm -r \"$1/srv\""])
        .args(options)
        .arg(suite)
        .arg(&tar)
        .args(sources)
        .output()
        .expect("mmdebstrap");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    write_layout(&source, architecture(), &[gzip(&fs::read(&tar).expect("a layer"))]);
    import(&controller.data_dir(), suite, &source.to_string_lossy(), &[]);
    let base = format!("base: {suite}");
    let status = build_within(INSTALL_TIMEOUT, controller, "lab@1.0.0", &base).await;
    if is_unreachable(&status) {
        return;
    }
    assert_eq!(status["status"], "ready", "{status}");
    check_computer(controller, "lab@1.0.0").await;
}

/// A controller for an installation of the desktop, which takes minutes.
async fn controller_in_full_run() -> Option<RunningController> {
    if is_full_run() {
        return controller().await;
    }
    Capability::Registries.skip("an installation of the desktop: only with HOTDESK_PROOF=full");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_is_installed_on_a_minimal_debian() {
    let Some(controller) = controller_in_full_run().await else { return };
    check_minimal(&controller, "bookworm", &[], None).await;
}

/// Package sources of Ubuntu for this architecture.
const UBUNTU: &str = if cfg!(target_arch = "aarch64") {
    "http://ports.ubuntu.com/ubuntu-ports"
} else {
    "http://archive.ubuntu.com/ubuntu"
};
/// The package with the keys of Ubuntu's archive, and its digest: Debian has none.
const UBUNTU_KEYS: &str = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb";
const UBUNTU_KEYS_DIGEST: &str = "sha256:36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8";

/// Links `/bin`, `/lib` and `/sbin` before the first package, as images of Ubuntu have them. mmdebstrap alone would leave
/// that to the conversion of a package.
const MERGED_USR: &str = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr";

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_is_installed_on_a_minimal_ubuntu() {
    let Some(controller) = controller_in_full_run().await else { return };
    let temp = tempfile::tempdir().expect("a folder");
    // The user of apt reads the keys.
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let (package, keys) = (temp.path().join("keys.deb"), temp.path().join("keys"));
    let url = format!("{UBUNTU}/{UBUNTU_KEYS}");
    let fetched =
        Command::new("curl").args(["-fsS", "--max-time", "60", "-o"]).arg(&package).arg(&url).output();
    let fetched = fetched.expect("curl");
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr).trim().to_owned();
        return Capability::Registries.skip(format_args!("the package sources of Ubuntu: {why}"));
    }
    assert_eq!(digest(&fs::read(&package).expect("a file")), UBUNTU_KEYS_DIGEST);
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&keys).status().expect("dpkg-deb");
    assert!(unpacked.success());
    let keyring = keys.join("usr/share/keyrings/ubuntu-archive-keyring.gpg");
    let option = format!("--keyring={}", keyring.display());
    // The desktop needs packages of `universe`, which images of Ubuntu permit.
    let sources = format!("deb {UBUNTU} noble main universe");
    check_minimal(&controller, "noble", &[option.as_str(), MERGED_USR], Some(&sources)).await;
}
