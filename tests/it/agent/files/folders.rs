//! Folders: paged listing, creation, move and removal, none of which follows a link that it would change.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::names;
use crate::harness::agent::{HttpAnswer, RunningAgent, fetch_json};

async fn call(agent: &RunningAgent, method: Method, path: &str, query: &[(&str, &str)]) -> HttpAnswer {
    fetch_json(agent.request(method, path).query(query)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_listed_sorted_and_in_pages() {
    let agent = RunningAgent::headless().await;
    let folder = agent.home().join("many");
    fs::create_dir(&folder).unwrap();
    for number in 0..2500 {
        fs::write(folder.join(format!("file-{number:04}")), vec![7; number % 5]).unwrap();
    }
    let (mut observed, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let mut query = vec![("path", "many"), ("limit", "700")];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = call(&agent, Method::GET, "/files/list", &query).await;
        assert_eq!((page.status, &page.body["path"]), (200, &json!(folder)), "{}", page.body);
        let entries = page.body["entries"].as_array().unwrap();
        assert!(entries.len() <= 700);
        observed.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        match page.body["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(observed, names(&folder));
    for (query, status) in [
        (&[("path", "many"), ("limit", "0")][..], 400),
        (&[("path", "many"), ("limit", "5001")], 400),
        (&[("path", "many/file-0001")], 400),
        (&[("path", "none")], 404),
        (&[("path", "")], 400),
        (&[("path", "~"), ("after", "zzz")], 200),
    ] {
        assert_eq!(call(&agent, Method::GET, "/files/list", query).await.status, status, "{query:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_described_and_a_link_is_described_itself() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    fs::write(home.join("file"), "12345").unwrap();
    fs::create_dir(home.join("folder")).unwrap();
    symlink("file", home.join("link")).unwrap();
    symlink("nowhere", home.join("dangling")).unwrap();
    nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let listed = call(&agent, Method::GET, "/files/list", &[("path", "~")]).await;
    let actual: Vec<(&str, &str, &Value)> = listed.body["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["name"].as_str().unwrap(), entry["type"].as_str().unwrap(), &entry["target"]))
        .collect();
    let none = &Value::Null;
    assert_eq!(
        actual,
        [
            ("dangling", "link", &json!("nowhere")),
            ("fifo", "special", none),
            ("file", "file", none),
            ("folder", "folder", none),
            ("link", "link", &json!("file")),
        ]
    );
    let stat = call(&agent, Method::GET, "/files/stat", &[("path", "/home/user/file")]).await.body;
    assert_eq!(
        (&stat["path"], &stat["size"], &stat["mode"]),
        (&json!(home.join("file")), &json!(5), &json!("0644"))
    );
    assert!(stat["modified_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(call(&agent, Method::GET, "/files/stat", &[("path", "link")]).await.body["type"], "link");
    assert_eq!(call(&agent, Method::GET, "/files/stat", &[("path", "/")]).await.body["name"], "/");
    assert_eq!(call(&agent, Method::GET, "/files/stat", &[("path", "none")]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_made_and_moved_and_nothing_is_replaced_unasked() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    for (body, status, outcome) in [
        (json!({"path": "a/"}), 200, json!("created")),
        (json!({"path": "a"}), 409, Value::Null),
        (json!({"path": "a", "parents": true}), 200, json!("exists")),
        (json!({"path": "b/c/d"}), 404, Value::Null),
        (json!({"path": "b/c/d", "parents": true}), 200, json!("created")),
        (json!({"path": "b/\u{202e}"}), 400, Value::Null),
        (json!({"path": "/"}), 400, Value::Null),
        (json!({}), 400, Value::Null),
    ] {
        let created = agent.post("/files/mkdir", body.clone()).await;
        assert_eq!(
            (created.status, &created.body["outcome"]),
            (status, &outcome),
            "{body}: {}",
            created.body
        );
    }
    fs::write(home.join("one"), "1").unwrap();
    fs::write(home.join("two"), "2").unwrap();
    symlink("b", home.join("way")).unwrap();
    for (from, to, overwrite, status) in [
        ("one", "two", false, 409),
        ("one", "two", true, 200),
        ("one", "three", false, 404),
        ("two", "b/c/two", false, 200),
        ("b/c/two", "a", true, 409),
        ("b", "b/c/b", false, 400),
        ("b", "way/x", false, 409),
        ("way", "renamed", false, 200),
        ("/", "x", false, 400),
        ("~", "x", false, 400),
        ("a/", "b/moved/", false, 200),
    ] {
        let moved = agent.post("/files/move", json!({"from": from, "to": to, "overwrite": overwrite})).await;
        assert_eq!(moved.status, status, "{from} to {to}: {}", moved.body);
    }
    assert_eq!(names(&home), ["b", "renamed"]);
    assert!(fs::symlink_metadata(home.join("renamed")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(home.join("b/c/two")).unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_tells_what_went_and_never_follows_a_link() {
    let agent = RunningAgent::headless().await;
    let home = agent.home();
    fs::create_dir_all(home.join("kept")).unwrap();
    fs::write(home.join("kept/precious"), "x").unwrap();
    fs::create_dir_all(home.join("tree/deep/deeper")).unwrap();
    fs::write(home.join("tree/a"), "123").unwrap();
    fs::write(home.join("tree/deep/deeper/b"), "4567").unwrap();
    symlink(home.join("kept"), home.join("tree/link")).unwrap();
    symlink("kept", home.join("outer")).unwrap();
    let remove = |query: &'static [(&str, &str)]| call(&agent, Method::DELETE, "/files", query);
    for (query, status) in [
        (&[("path", "tree")][..], 409),
        (&[("path", "/"), ("recursive", "true")], 400),
        (&[("path", "//"), ("recursive", "true")], 400),
        (&[("path", "~/"), ("recursive", "true")], 400),
        (&[("path", "tree/.."), ("recursive", "true")], 400),
        (&[("path", "outer/precious")], 409),
        (&[("path", "none")], 404),
        (&[("path", "")], 400),
    ] {
        let refused = remove(query).await;
        assert_eq!(refused.status, status, "{query:?}: {}", refused.body);
    }
    let gone = remove(&[("path", "tree"), ("recursive", "true")]).await;
    let link = home.join("kept").as_os_str().len();
    assert_eq!(
        (gone.status, gone.body),
        (200, json!({"path": home.join("tree"), "files": 3, "folders": 3, "bytes": 7 + link}))
    );
    assert_eq!(remove(&[("path", "outer/"), ("recursive", "true")]).await.body["files"], 1);
    assert_eq!(names(&home), ["kept"]);
    assert_eq!(names(&home.join("kept")), ["precious"]);
}

/// While it is held, a thread alternates a path between a folder and a link to another folder.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(path: PathBuf, target: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let aside = path.with_extension("aside");
            while !stopped.load(Ordering::Relaxed) {
                // Each may fail, because the requests under test change the path as well.
                let _ = fs::create_dir(&path).and_then(|()| fs::write(path.join("own"), "x"));
                let _ = fs::rename(&path, &aside).and_then(|()| symlink(&target, &path));
                let _ = fs::remove_file(&path);
                let _ = fs::remove_dir_all(&aside);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("dropped once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the swapping thread must not panic");
    }
}

/// T7 (docs/security.md): the path changes between the check and the use.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_becomes_a_link_at_any_moment_leads_nothing_elsewhere() {
    let agent = RunningAgent::headless().await;
    let (home, outside) = (agent.home(), agent.home().join("outside"));
    fs::create_dir_all(outside.join("own")).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    fs::create_dir_all(home.join("tree")).unwrap();
    let tar =
        agent.bash("mkdir -p t/sub && echo x >t/sub/x && tar -C t -cf t.tar . && rm -r t && echo ok").await;
    assert_eq!(tar.body["output"], "ok\n", "{}", tar.body);
    let tar = fs::read(home.join("t.tar")).unwrap();

    let swapping = Swapper::start(home.join("tree/way"), outside.clone());
    let (mut done, mut refused) = (BTreeSet::new(), 0);
    let until = Instant::now() + Duration::from_secs(30);
    while (done.len() < 4 || refused < 20) && Instant::now() < until {
        let put = agent
            .request(Method::PUT, "/files/content")
            .query(&[("path", "tree/way/put"), ("overwrite", "true")]);
        let pack = agent
            .request(Method::PUT, "/files/archive")
            .query(&[("path", "tree/way"), ("overwrite", "true")]);
        let created = json!({"path": "tree/way/made/deep", "parents": true});
        let gone = [("path", "tree/way"), ("recursive", "true")];
        for (what, answer) in [
            // The other requests create the folder if it is absent; this one needs an existing folder.
            ("mkdir", agent.post("/files/mkdir", created).await),
            ("put", fetch_json(put.body("x")).await),
            ("pack", fetch_json(pack.body(tar.clone())).await),
            ("remove", call(&agent, Method::DELETE, "/files", &gone).await),
        ] {
            assert!(answer.status < 500, "{what}: {} {}", answer.status, answer.body);
            if answer.status == 200 {
                done.insert(what);
            } else {
                refused += 1;
            }
        }
    }
    drop(swapping);
    assert!(done.len() == 4 && refused >= 20, "{done:?} done, {refused} refused");
    assert_eq!(names(&outside), ["own", "precious"]);
    assert_eq!(names(&outside.join("own")), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_those_of_the_bytes() {
    let agent = RunningAgent::headless().await;
    fs::write(agent.home().join("abc"), "abc").unwrap();
    let hash = |query: &'static [(&str, &str)]| call(&agent, Method::GET, "/files/hash", query);
    // Examples of FIPS 180-4.
    let actual = hash(&[("path", "abc")]).await.body;
    assert_eq!(actual["hash"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!((&actual["algorithm"], &actual["size"]), (&json!("sha256"), &json!(3)));
    let long = hash(&[("path", "abc"), ("algorithm", "sha512")]).await.body;
    assert!(long["hash"].as_str().unwrap().starts_with("ddaf35a193617abacc417349ae204131"));
    for (query, status) in [
        (&[("path", "abc"), ("algorithm", "md5")][..], 400),
        (&[("path", "~")], 400),
        (&[("path", "/dev/zero")], 400),
        (&[("path", "none")], 404),
    ] {
        assert_eq!(hash(query).await.status, status, "{query:?}");
    }
}
