//! Refusals of images that are bad or damaged.

use std::fs;

use serde_json::json;
use tar::EntryType;

use super::layouts::File;
use super::{
    architecture, debian, digest, file, gzip, hotdesk_image, is_root, layer, link, refusal, write_layout,
};

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
