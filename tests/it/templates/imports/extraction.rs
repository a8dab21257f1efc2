//! Extraction of the layers of an image.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tar::EntryType;

use super::layouts::{File, folder};
use super::{architecture, debian, file, gzip, hotdesk_image, import, is_root, layer, link, write_layout};

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
