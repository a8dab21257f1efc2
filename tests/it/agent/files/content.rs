//! Content of any file: upload and download of any size, ranges, and path confinement (T7, docs/security.md).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hotdesk::base::hex::hex;
use hotdesk::base::wait;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::names;
use crate::harness::agent::{HttpAnswer, RunningAgent, fetch_json};
use crate::harness::capability::Capability;

fn content(agent: &RunningAgent, method: Method, query: &[(&str, &str)]) -> RequestBuilder {
    agent.request(method, "/files/content").query(query)
}

async fn put(agent: &RunningAgent, query: &[(&str, &str)], body: &str) -> HttpAnswer {
    fetch_json(content(agent, Method::PUT, query).body(body.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_megabytes_go_in_and_out_through_little_memory() {
    const CHUNKS: u32 = 3200;
    const CHUNK_SIZE: usize = 64 * 1024;
    let agent = RunningAgent::headless().await;
    assert_eq!(put(&agent, &[("path", "warm")], "x").await.status, 200);
    let before = agent.peak_kib();
    let chunk = |number: u32| Bytes::from(number.to_le_bytes().repeat(CHUNK_SIZE / 4));
    let body =
        futures_util::stream::iter((0..CHUNKS).map(move |number| Ok::<_, std::io::Error>(chunk(number))));
    let body = reqwest::Body::wrap_stream(body);
    let written = fetch_json(content(&agent, Method::PUT, &[("path", "large")]).body(body)).await;
    let mut digest = Sha256::new();
    (0..CHUNKS).for_each(|number| digest.update(chunk(number)));
    let sent = hex(&digest.finalize());
    let size = CHUNKS as usize * CHUNK_SIZE;
    assert_eq!((written.status, &written.body["sha256"]), (200, &json!(sent)), "{}", written.body);
    assert_eq!(written.body["size"], json!(size));

    let response = content(&agent, Method::GET, &[("path", "large")]).send().await.unwrap();
    assert_eq!(response.content_length(), Some(size as u64));
    let (mut digest, mut chunks) = (Sha256::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        digest.update(chunk.unwrap());
    }
    assert_eq!(hex(&digest.finalize()), sent);
    let hashed = agent.get("/files/hash?path=large").await;
    assert_eq!((&hashed.body["hash"], &hashed.body["size"]), (&json!(sent), &json!(size)));
    let grown = agent.peak_kib() - before;
    println!("the agent grew by {grown} KiB at most");
    assert!(grown < 32 * 1024, "{grown} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_answered_as_rfc_9110_says() {
    let agent = RunningAgent::headless().await;
    fs::write(agent.home().join("ten 名.txt"), "0123456789").unwrap();
    let range_of = |method: Method, headers: &[(&'static str, &str)]| {
        let mut request = content(&agent, method, &[("path", "ten 名.txt")]);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send()
    };
    let whole = range_of(Method::GET, &[]).await.unwrap();
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    };
    let (etag, modified) = (header(&whole, "etag"), header(&whole, "last-modified"));
    assert_eq!(header(&whole, "accept-ranges"), "bytes");
    assert_eq!(header(&whole, "content-disposition"), "attachment; filename*=UTF-8''ten%20%E5%90%8D.txt");
    for (headers, status, range, body) in [
        (&[("range", "bytes=2-4")][..], 206, "bytes 2-4/10", "234"),
        (&[("range", "bytes=7-")], 206, "bytes 7-9/10", "789"),
        (&[("range", "bytes=-3")], 206, "bytes 7-9/10", "789"),
        (&[("range", "bytes=0-0,2-2")], 200, "", "0123456789"),
        (&[("range", "bytes=2-4"), ("if-range", &etag)], 206, "bytes 2-4/10", "234"),
        (&[("range", "bytes=2-4"), ("if-range", &modified)], 206, "bytes 2-4/10", "234"),
        (&[("range", "bytes=2-4"), ("if-range", "\"old\"")], 200, "", "0123456789"),
        (&[("if-none-match", &etag)], 304, "", ""),
        (&[("if-none-match", "\"old\"")], 200, "", "0123456789"),
    ] {
        let response = range_of(Method::GET, headers).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), header(&response, "content-range").as_str()),
            (status, range)
        );
        assert_eq!(header(&response, "etag"), etag);
        assert_eq!(response.text().await.unwrap(), body, "{headers:?}");
    }
    let beyond = range_of(Method::GET, &[("range", "bytes=10-")]).await.unwrap();
    assert_eq!((beyond.status().as_u16(), header(&beyond, "content-range").as_str()), (416, "bytes */10"));
    assert_eq!(beyond.json::<serde_json::Value>().await.unwrap()["code"], "range_not_satisfiable");
    let head = range_of(Method::HEAD, &[("range", "bytes=2-4")]).await.unwrap();
    assert_eq!((head.status().as_u16(), header(&head, "content-length").as_str()), (200, "10"));
    assert_eq!(content(&agent, Method::HEAD, &[("path", "none")]).send().await.unwrap().status(), 404);
    // Replaced content has another ETag, even at the same size.
    let again = put(&agent, &[("path", "ten 名.txt"), ("overwrite", "true")], "abcdefghij").await;
    assert_eq!(again.body["outcome"], "replaced");
    let resumed = range_of(Method::GET, &[("range", "bytes=2-4"), ("if-range", &etag)]).await.unwrap();
    assert_eq!((resumed.status().as_u16(), resumed.text().await.unwrap().as_str()), (200, "abcdefghij"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_replaces_another_only_when_asked_and_keeps_its_permissions() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    let first = put(&agent, &[("path", "a/b.txt"), ("parents", "true")], "one").await;
    assert_eq!((first.status, &first.body["outcome"]), (200, &json!("created")), "{}", first.body);
    assert_eq!(first.body["path"], json!(home.join("a/b.txt")));
    let mode = |name: &str| fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("a/b.txt"), 0o644);
    let second = put(&agent, &[("path", "a/b.txt")], "two").await;
    assert_eq!((second.status, &second.body["code"]), (409, &json!("already_exists")));
    assert_eq!(fs::read_to_string(home.join("a/b.txt")).unwrap(), "one");
    fs::set_permissions(home.join("a/b.txt"), fs::Permissions::from_mode(0o700)).unwrap();
    let old = fs::metadata(home.join("a/b.txt")).unwrap().ino();
    let third = put(&agent, &[("path", "~/a/b.txt"), ("overwrite", "true")], "three").await;
    assert_eq!((third.status, &third.body["outcome"]), (200, &json!("replaced")));
    assert_eq!(
        (fs::read_to_string(home.join("a/b.txt")).unwrap().as_str(), mode("a/b.txt")),
        ("three", 0o700)
    );
    assert_ne!(fs::metadata(home.join("a/b.txt")).unwrap().ino(), old);
    assert_eq!(put(&agent, &[("path", "run.sh"), ("mode", "755")], "x").await.status, 200);
    assert_eq!(mode("run.sh"), 0o755);

    // A link is replaced itself and its target is unchanged; a folder is never replaced.
    symlink("a/b.txt", home.join("link")).unwrap();
    assert_eq!(put(&agent, &[("path", "link")], "x").await.status, 409);
    assert_eq!(put(&agent, &[("path", "link"), ("overwrite", "true")], "new").await.status, 200);
    assert!(!fs::symlink_metadata(home.join("link")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(home.join("a/b.txt")).unwrap(), "three");
    let folder = put(&agent, &[("path", "a"), ("overwrite", "true")], "x").await;
    assert_eq!((folder.status, &folder.body["code"]), (409, &json!("is_a_folder")));

    symlink("a", home.join("way")).unwrap();
    for (query, status) in [
        (&[("path", "way/x")][..], 409),
        (&[("path", "none/x")], 404),
        (&[("path", "run.sh/x")], 400),
        (&[("path", "a/")], 400),
        (&[("path", "a/..")], 400),
        (&[("path", "a/b\u{202e}c")], 400),
        (&[("path", "a/b\nc")], 400),
        (&[("path", "a/ x")], 400),
        (&[("path", "")], 400),
        (&[("path", "/")], 400),
        (&[("path", &"x".repeat(256))], 400),
        (&[("path", "x"), ("mode", "4755")], 400),
        (&[("path", "x"), ("overwrite", "maybe")], 400),
        (&[("path", "/proc/self/root/tmp/x")], 409),
    ] {
        let refused = put(&agent, query, "x").await;
        assert_eq!(refused.status, status, "{query:?}: {}", refused.body);
    }
    assert_eq!(names(&home), ["a", "link", "run.sh", "way"]);
    assert_eq!(names(&home.join("a")), ["b.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_becomes_a_link_meanwhile_leads_nothing_elsewhere() {
    let agent = RunningAgent::headless().await;
    let (home, elsewhere) = (agent.home(), agent.home().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(home.join("folder")).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (home, over) = (home.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                fs::rename(home.join("folder"), home.join("aside")).unwrap();
                symlink("elsewhere", home.join("folder")).unwrap();
                fs::remove_file(home.join("folder")).unwrap();
                fs::rename(home.join("aside"), home.join("folder")).unwrap();
            }
        })
    };
    let (mut written, mut refused) = (0, 0);
    for number in 0..300 {
        let name = format!("folder/{number}");
        let answer = put(&agent, &[("path", &name)], "x").await;
        match answer.status {
            200 => written += 1,
            404 | 409 => refused += 1,
            other => panic!("{other}: {}", answer.body),
        }
    }
    over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    println!("{written} written, {refused} refused");
    assert_eq!(names(&elsewhere), Vec::<String>::new());
    assert_eq!(names(&home.join("folder")).len(), written);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    use tokio::io::AsyncWriteExt;
    let agent = RunningAgent::headless().await;
    let mut stream = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
    let head = format!(
        "PUT /files/content?path=broken HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\nhello",
        agent.token()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let started =
        wait::until(Duration::from_secs(30), || async { (!names(&agent.home()).is_empty()).then_some(()) });
    started.await.expect("an unfinished file must appear");
    drop(stream);
    let clean =
        wait::until(Duration::from_secs(30), || async { names(&agent.home()).is_empty().then_some(()) });
    clean.await.unwrap_or_else(|| panic!("left {:?}", names(&agent.home())));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_uploads_than_there_are_places_are_refused_and_places_come_back() {
    use tokio::io::AsyncWriteExt;
    let agent = RunningAgent::headless().await;
    let mut held = Vec::new();
    for number in 0..16 {
        let mut stream = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
        let head = format!(
            "PUT /files/content?path={number} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 9\r\n\r\nx",
            agent.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let started =
        wait::until(Duration::from_secs(30), || async { (names(&agent.home()).len() == 16).then_some(()) });
    started.await.expect("all uploads must begin");
    let refused = put(&agent, &[("path", "one-more")], "x").await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("too_many_transfers")));
    // A short request needs no transfer permit.
    assert_eq!(agent.get("/files/list?path=~").await.status, 200);
    drop(held);
    let free = wait::until(Duration::from_secs(30), || async {
        (put(&agent, &[("path", "one-more"), ("overwrite", "true")], "x").await.status == 200).then_some(())
    });
    free.await.expect("a permit must be returned");
    let clean = wait::until(Duration::from_secs(30), || async {
        (names(&agent.home()) == ["one-more"]).then_some(())
    });
    clean.await.unwrap_or_else(|| panic!("left {:?}", names(&agent.home())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_leaves_nothing() {
    let agent = RunningAgent::headless().await;
    let small = agent.home().join("small");
    fs::create_dir(&small).unwrap();
    let source = Some("tmpfs");
    let flags = nix::mount::MsFlags::empty();
    if let Err(error) = nix::mount::mount(source, &small, source, flags, Some("size=1m")) {
        Capability::Root.skip(format_args!("cannot mount a small tmpfs: {error}"));
        return;
    }
    let big = "7".repeat(4 * 1024 * 1024);
    let full = put(&agent, &[("path", "small/big")], &big).await;
    let left = names(&small);
    fs::write(agent.home().join("other"), "moved").unwrap();
    let moved = agent.post("/files/move", json!({"from": "other", "to": "small/other"})).await;
    let there = fs::read_to_string(small.join("other"));
    let removed = fetch_json(agent.request(Method::DELETE, "/files?path=.&recursive=true")).await;
    fs::create_dir_all(agent.home().join("outer")).unwrap();
    let crossing = agent.post("/files/move", json!({"from": "small", "to": "outer/small"})).await;
    nix::mount::umount(&small).unwrap();
    assert_eq!((full.status, &full.body["code"]), (503, &json!("disk_full")));
    assert_eq!(left, Vec::<String>::new());
    assert_eq!((moved.status, there.unwrap().as_str()), (200, "moved"), "{}", moved.body);
    assert!(!agent.home().join("other").exists());
    assert_eq!((removed.status, &removed.body["code"]), (400, &json!("protected_path")));
    assert_eq!(crossing.status, 409, "{}", crossing.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_match_replaces_only_the_version_that_it_names() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    fs::write(home.join("note"), "one").unwrap();
    let write = async |path: &str, version: &str, text: &str| {
        let query = [("path", path), ("overwrite", "true"), ("parents", "true")];
        let request = content(&agent, Method::PUT, &query).header("if-match", version).body(text.to_owned());
        request.send().await.unwrap()
    };
    let tag_of = async |path: &str| {
        let head = content(&agent, Method::HEAD, &[("path", path)]).send().await.unwrap();
        head.headers()["etag"].to_str().unwrap().to_owned()
    };
    let first = tag_of("note").await;
    let written = write("note", &first, "two").await;
    assert_eq!(written.status(), 200);
    let second = written.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!((second == first, &tag_of("note").await), (false, &second), "the tag of what was written");
    for (path, version) in [
        ("note", first.as_str()),
        ("note", "\"x\""),
        ("note", "W/\"x\""),
        ("note", &format!("W/{second}")),
        ("none", "*"),
        ("none", &second),
        ("no/folder/none", "*"),
    ] {
        let refused = write(path, version, "lost").await;
        assert_eq!(refused.status(), 412, "{path} {version}");
        let body: serde_json::Value = refused.json().await.unwrap();
        assert_eq!(body["code"], "file_changed", "{body}");
    }
    assert_eq!(fs::read_to_string(home.join("note")).unwrap(), "two", "nothing was written");
    assert!(!home.join("no").exists() && !home.join("none").exists());
    assert!(names(&home).iter().all(|name| !name.starts_with(".hotdesk-upload-")), "{:?}", names(&home));
    assert_eq!(write("note", &format!("\"x\", {second}"), "three").await.status(), 200);
    assert_eq!(write("note", "*", "four").await.status(), 200);
    // The condition allows no replacement by itself.
    let kept = content(&agent, Method::PUT, &[("path", "note")]).header("if-match", "*").body("five");
    let kept = fetch_json(kept).await;
    assert_eq!((kept.status, &kept.body["code"]), (409, &json!("already_exists")));
    // A program wrote meanwhile.
    let read = tag_of("note").await;
    fs::write(home.join("note"), "by a program").unwrap();
    assert_eq!(write("note", &read, "six").await.status(), 412);
    assert_eq!(fs::read_to_string(home.join("note")).unwrap(), "by a program");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_writers_with_the_same_version_one_wins() {
    const WRITERS: usize = 8;
    let agent = RunningAgent::headless().await;
    fs::write(agent.home().join("shared"), "start").unwrap();
    for round in 0..10 {
        let head = content(&agent, Method::HEAD, &[("path", "shared")]).send().await.unwrap();
        let version = head.headers()["etag"].to_str().unwrap();
        let write = |writer: usize| {
            let query = [("path", "shared"), ("overwrite", "true")];
            let request = content(&agent, Method::PUT, &query).header("if-match", version);
            request.body(format!("{round} {writer}")).send()
        };
        let answers = futures_util::future::join_all((0..WRITERS).map(write)).await;
        let statuses: Vec<u16> =
            answers.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect();
        let winners: Vec<usize> = (0..WRITERS).filter(|writer| statuses[*writer] == 200).collect();
        let [winner] = winners[..] else { panic!("{statuses:?}") };
        assert!(statuses.iter().all(|status| [200, 412].contains(status)), "{statuses:?}");
        let text = fs::read_to_string(agent.home().join("shared")).unwrap();
        assert_eq!(text, format!("{round} {winner}"), "{statuses:?}");
    }
}
