//! Archives of `docker save` before Docker 25, which an operator imports.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::imports::{OS_RELEASE, architecture, debian, digest, file, import, is_root, layer, refusal};

/// Names the image in the archive.
const MANIFEST: &str = "manifest.json";

/// Adds a member, or a symbolic link with `content` as its target.
fn add(archive: &mut Builder<fs::File>, name: &str, kind: EntryType, content: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    if kind == EntryType::Symlink {
        header.set_size(0);
        let target = str::from_utf8(content).expect("a target");
        archive.append_link(&mut header, name, target).expect("a link");
    } else {
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, content).expect("a member");
    }
}

/// Writes an archive as `docker save` did: each layer in a folder of its own, and further ones of the same content as
/// links to the first. `digests` are those that the configuration names.
fn save(at: &Path, architecture: &str, layers: &[Vec<u8>], digests: &[String]) {
    let mut archive = Builder::new(fs::File::create(at).expect("a file"));
    let mut names = Vec::new();
    for (number, content) in layers.iter().enumerate() {
        let name = format!("{number:064}/layer.tar");
        add(&mut archive, &format!("{number:064}/VERSION"), EntryType::Regular, b"1.0");
        match layers[..number].iter().position(|earlier| earlier == content) {
            Some(first) => {
                let target = format!("../{first:064}/layer.tar");
                add(&mut archive, &name, EntryType::Symlink, target.as_bytes());
            }
            None => add(&mut archive, &name, EntryType::Regular, content),
        }
        names.push(name);
    }
    let config = json!({
        "architecture": architecture, "os": "linux", "config": {"Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": digests},
    });
    let config = config.to_string();
    let config_name = format!("{}.json", &digest(config.as_bytes())[7..]);
    add(&mut archive, &config_name, EntryType::Regular, config.as_bytes());
    let manifest = json!([{"Config": config_name, "RepoTags": ["mine:latest"], "Layers": names}]);
    add(&mut archive, MANIFEST, EntryType::Regular, manifest.to_string().as_bytes());
    add(&mut archive, "repositories", EntryType::Regular, b"{}");
    archive.finish().expect("an archive");
}

fn digests(layers: &[Vec<u8>]) -> Vec<String> {
    layers.iter().map(|content| digest(content)).collect()
}

#[test]
fn an_archive_of_an_older_docker_is_imported() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let (data, archive) = (temp.path().join("data"), temp.path().join("saved.tar"));
    fs::create_dir(&data).expect("a folder");
    let marker = layer(&[file("opt/marker", b"above")]);
    let hidden = layer(&[file("opt/.wh.marker", b"")]);
    // The last layer has the content of the second one, and brings the marker back.
    let layers = [layer(&debian()), marker.clone(), hidden, marker];
    save(&archive, architecture(), &layers, &digests(&layers));
    let root = import(&data, "saved", &archive.to_string_lossy(), &[]);
    assert_eq!(fs::read_to_string(root.join("usr/lib/os-release")).expect("a file"), OS_RELEASE);
    assert_eq!(fs::read_to_string(root.join("opt/marker")).expect("a file"), "above");
    let record = fs::read_to_string(data.join("bases/saved/base.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert!(record["id"].as_str().is_some_and(|id| id.starts_with("sha256:")), "{record}");
}

#[test]
fn a_docker_archive_that_is_not_what_it_says_is_refused() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let (data, archive) = (temp.path().join("data"), temp.path().join("saved.tar"));
    fs::create_dir(&data).expect("a folder");
    let layers = [layer(&debian()), layer(&[file("a", b"x")])];
    let right = digests(&layers);
    let swapped = [right[1].clone(), right[0].clone()];
    for (what, architecture, digests, expected) in [
        ("another platform", "s390x", &right[..], "the image is for linux/s390x"),
        ("layers in another order", architecture(), &swapped[..], "the image is damaged"),
        ("a layer without a digest", architecture(), &right[..1], "manifest.json has 2 layers"),
    ] {
        save(&archive, architecture, &layers, digests);
        let error = refusal(&data, &archive.to_string_lossy(), &[]);
        assert!(error.contains(expected), "{what}: {error}");
    }

    let of = |members: &[(&str, EntryType, &str)]| {
        let mut written = Builder::new(fs::File::create(&archive).expect("a file"));
        for (name, kind, content) in members {
            add(&mut written, name, *kind, content.as_bytes());
        }
        written.finish().expect("an archive");
        refusal(&data, &archive.to_string_lossy(), &[])
    };
    let config = json!({"architecture": architecture(), "os": "linux", "rootfs": {"diff_ids": [&right[0]]}});
    let config = config.to_string();
    let config = ("c.json", EntryType::Regular, &*config);
    let manifest = |text: &str| of(&[config, (MANIFEST, EntryType::Regular, text)]);
    assert!(manifest("{}").contains("manifest.json is no document of an OCI image"));
    assert!(manifest("[]").contains("the source has 0 images"));
    let image = r#"{"Config": "c.json", "Layers": ["l/layer.tar"]}"#;
    assert!(manifest(&format!("[{image}, {image}]")).contains("the source has 2 images: save one alone"));
    assert!(manifest(&format!("[{image}]")).contains("the archive has no l/layer.tar"));
    // A member outside of the archive is not looked for.
    let outside = image.replace("c.json", "/etc/passwd");
    assert!(manifest(&format!("[{outside}]")).contains("has no /etc/passwd"));
    let linked = of(&[
        config,
        ("l/layer.tar", EntryType::Symlink, "/etc/passwd"),
        (MANIFEST, EntryType::Regular, &format!("[{image}]")),
    ]);
    assert!(linked.contains("the archive has no l/layer.tar"), "{linked}");
}
