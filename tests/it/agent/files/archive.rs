//! Folders as tar streams: links as links, and no entry outside of the target.
//!
//! T8 (docs/security.md).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::names;
use crate::harness::agent::{HttpAnswer, RunningAgent, fetch_json};

async fn unpack(agent: &RunningAgent, query: &[(&str, &str)], tar: Vec<u8>) -> HttpAnswer {
    fetch_json(agent.request(Method::PUT, "/files/archive").query(query).body(tar)).await
}

async fn pack(agent: &RunningAgent, path: &str) -> Vec<u8> {
    let request = agent.request(Method::GET, "/files/archive").query(&[("path", path)]);
    let response = request.send().await.expect("an answer");
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/x-tar".parse().expect("a type"))
    );
    response.bytes().await.expect("a body").to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_packed_and_unpacked_is_the_same() {
    let agent = RunningAgent::headless().await;
    let from = agent.home().join("from");
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    fs::create_dir_all(from.join("empty")).unwrap();
    fs::create_dir_all(from.join("d".repeat(120))).unwrap();
    fs::write(from.join(&long), "long").unwrap();
    fs::write(from.join("名前"), vec![7; 300_000]).unwrap();
    fs::write(from.join("run"), "#!").unwrap();
    fs::set_permissions(from.join("run"), fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("名前", from.join("link")).unwrap();
    symlink("/nowhere/".repeat(30), from.join("dangling")).unwrap();
    nix::unistd::mkfifo(&from.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    let packed = pack(&agent, "from").await;
    let done = unpack(&agent, &[("path", "to/folder/"), ("parents", "true")], packed.clone()).await;
    let to = agent.home().join("to/folder");
    assert_eq!(
        (done.status, done.body),
        (200, json!({"path": to, "files": 3, "folders": 2, "links": 2, "bytes": 300_006}))
    );
    assert_eq!(fs::read_to_string(to.join(&long)).unwrap(), "long");
    assert_eq!(fs::read(to.join("名前")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::read_link(to.join("dangling")).unwrap(), fs::read_link(from.join("dangling")).unwrap());
    // Permission bits are preserved, the set-user-id and set-group-id bits are not.
    assert_eq!(fs::metadata(to.join("run")).unwrap().permissions().mode() & 0o7777, 0o755);
    let modified = |path: std::path::PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    assert!(
        modified(from.join("run")).duration_since(modified(to.join("run"))).unwrap() < Duration::from_secs(1)
    );
    assert_eq!(names(&to), ["dangling", "d".repeat(120).as_str(), "empty", "link", "run", "名前"]);

    // A second unpack into the same folder must not replace a file unasked, and then must not add one either.
    fs::remove_file(to.join("link")).unwrap();
    fs::write(to.join("run"), "mine").unwrap();
    let refused = unpack(&agent, &[("path", "to/folder")], packed.clone()).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("already_exists")), "{}", refused.body);
    assert!(!to.join("link").is_symlink());
    assert_eq!(fs::read_to_string(to.join("run")).unwrap(), "mine");
    let replaced = unpack(&agent, &[("path", "to/folder"), ("overwrite", "true")], packed).await;
    assert_eq!((replaced.status, fs::read_to_string(to.join("run")).unwrap().as_str()), (200, "#!"));
    assert_eq!(names(&to).len(), 6);
    // A file and a folder never replace each other, and then nothing else is replaced either.
    fs::remove_dir(to.join("empty")).unwrap();
    fs::write(to.join("empty"), "a file").unwrap();
    fs::write(to.join("run"), "mine").unwrap();
    let packed = pack(&agent, "from").await;
    let conflicting = unpack(&agent, &[("path", "to/folder"), ("overwrite", "true")], packed).await;
    assert_eq!((conflicting.status, fs::read_to_string(to.join("run")).unwrap().as_str()), (409, "mine"));

    // It continues after any entry, also after one that does not exist.
    let all = ["dangling", &"d".repeat(120), &long, "empty", "link", "run", "名前"].map(str::to_owned);
    for (after, left_out) in [
        ("", 0),
        ("a", 0),
        ("dangling", 1),
        (&all[1], 2),
        (&long, 3),
        ("empty/x", 4),
        ("run/x/y", 6),
        ("名前", 7),
        ("龍", 7),
    ] {
        let request =
            agent.request(Method::GET, "/files/archive").query(&[("path", "from"), ("after", after)]);
        let packed = request.send().await.expect("an answer").bytes().await.expect("a body");
        let mut archive = tar::Archive::new(&packed[..]);
        let paths: Vec<_> =
            archive.entries().unwrap().map(|it| it.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(paths, all[left_out..], "{after}");
    }
    // It can be bound to the entries that are left out.
    let bound = |digest: &str| {
        let request =
            agent.request(Method::GET, "/files/archive").query(&[("path", "from"), ("after", "dangling")]);
        request.header("if-match", format!("\"{digest}\"")).send()
    };
    let facts = fs::symlink_metadata(from.join("dangling")).unwrap();
    let mut digest = Sha256::new();
    digest.update("2");
    for number in [0o777, 0, u64::try_from(facts.mtime()).unwrap()] {
        digest.update(number.to_le_bytes());
    }
    digest.update(format!("dangling\0{}\0", "/nowhere/".repeat(30)));
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(bound(&digest).await.expect("an answer").status(), 200);
    fs::remove_file(from.join("dangling")).unwrap();
    assert_eq!(bound(&digest).await.expect("an answer").status(), 412);
    symlink("/nowhere/".repeat(30), from.join("dangling")).unwrap();

    for after in ["/etc", "..", "a/../b", "./a", "a\0b", &"x/".repeat(2100)] {
        let request =
            agent.request(Method::GET, "/files/archive").query(&[("path", "from"), ("after", after)]);
        let refused = fetch_json(request).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("INVALID_REQUEST")), "{after}");
    }

    for (path, status) in [("none", 404), ("from/run", 400), ("", 400)] {
        let request = agent.request(Method::GET, "/files/archive").query(&[("path", path)]);
        assert_eq!(fetch_json(request).await.status, status, "{path:?}");
    }
}

/// An archive of one entry with an arbitrary header.
fn entry(kind: EntryType, path: &[u8], target: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_archive_is_refused_and_leaves_nothing() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    fs::create_dir(home.join("kept")).unwrap();
    let file = |path: &[u8]| entry(EntryType::Regular, path, b"", b"evil");
    let joined = |entries: &[Vec<u8>]| entries.concat();
    let mut huge_name = entry(EntryType::GNULongName, b"././@LongLink", b"", b"");
    huge_name[124..136].copy_from_slice(b"77777777777\0");
    let pax = entry(EntryType::XHeader, b"x", b"", b"11 size=10\n");
    let mut broken = file(b"good");
    broken.extend_from_slice(&[7; 512]);
    let link_out = entry(EntryType::Symlink, b"way", b"../kept", b"");
    let cases: [(&str, Vec<u8>, &str); 14] = [
        ("parent", joined(&[file(b"good"), file(b"../kept/evil")]), "unsafe_archive"),
        ("absolute", file(b"/tmp/evil"), "unsafe_archive"),
        ("hidden parent", file(b"a/../../kept/evil"), "unsafe_archive"),
        ("hard link", entry(EntryType::Link, b"x", b"/etc/passwd", b""), "unsafe_archive"),
        ("device", entry(EntryType::Char, b"x", b"", b""), "unsafe_archive"),
        ("block device", entry(EntryType::Block, b"x", b"", b""), "unsafe_archive"),
        ("fifo", entry(EntryType::Fifo, b"x", b"", b""), "unsafe_archive"),
        ("sparse", entry(EntryType::GNUSparse, b"x", b"", b""), "unsafe_archive"),
        ("endless name", huge_name, "bad_archive"),
        ("two sizes", joined(&[pax, file(b"x")]), "unsafe_archive"),
        ("link, then through it", joined(&[link_out.clone(), file(b"way/evil")]), "path_through_link"),
        ("no archive", b"hello".repeat(200), "bad_archive"),
        ("garbage after an entry", broken, "bad_archive"),
        (
            "pax path",
            joined(&[entry(EntryType::XHeader, b"x", b"", b"18 path=../evil12\n"), file(b"x")]),
            "unsafe_archive",
        ),
    ];
    for (what, tar, code) in cases {
        let refused = unpack(&agent, &[("path", "new")], tar).await;
        assert!([400, 409].contains(&refused.status), "{what}: {} {}", refused.status, refused.body);
        // The checksum of the endless name is wrong too; either error may be reported.
        assert_eq!(refused.body["code"], code, "{what}: {}", refused.body);
        assert_eq!(names(&home), ["kept"], "{what}");
        assert_eq!(names(&home.join("kept")), Vec::<String>::new(), "{what}");
    }
    // The link itself is harmless: nothing is written through it.
    let done = unpack(&agent, &[("path", "new")], link_out).await;
    assert_eq!((done.status, &done.body["links"]), (200, &json!(1)), "{}", done.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_breaks_off_leaves_nothing() {
    use tokio::io::AsyncWriteExt;
    let agent = RunningAgent::headless().await;
    let mut tar = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(100_000);
    header.set_mode(0o644);
    tar.append_data(&mut header, "a/b", vec![7; 100_000].as_slice()).unwrap();
    let tar = tar.into_inner().unwrap();
    let mut stream = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
    let head = format!(
        "PUT /files/archive?path=new HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        agent.token(),
        tar.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&tar[..50_000]).await.unwrap();
    let started =
        wait::until(Duration::from_secs(30), || async { agent.home().join("new").exists().then_some(()) });
    started.await.expect("the upload must begin");
    drop(stream);
    let clean =
        wait::until(Duration::from_secs(30), || async { names(&agent.home()).is_empty().then_some(()) });
    clean.await.unwrap_or_else(|| panic!("left {:?}", names(&agent.home())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_archive() {
    let agent = RunningAgent::headless().await;
    fs::create_dir(agent.home().join("big")).unwrap();
    let file = fs::File::create(agent.home().join("big/zeros")).unwrap();
    file.set_len(1 << 36).unwrap();
    // More sequential transfers than there are permits: each permit is returned.
    for _ in 0..20 {
        let request = agent.request(Method::GET, "/files/archive?path=big");
        let found = wait::until(Duration::from_secs(30), || async {
            let response = request.try_clone().unwrap().send().await.unwrap();
            (response.status() == 200).then_some(response)
        });
        let mut response = found.await.expect("a transfer permit");
        assert!(response.chunk().await.unwrap().is_some());
        drop(response);
    }
}
