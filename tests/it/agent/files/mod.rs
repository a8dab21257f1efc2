//! Files on the desktop: atomic creation without replacement, name checks, and downloads.
//!
//! T7 (docs/security.md).

mod archive;
mod content;
mod folders;
mod resumable;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::{RunningAgent, fetch_json};
use crate::harness::capability::Capability;
use crate::harness::controller::{gvisor, runsc};

/// Runs this module once more under gVisor's kernel, which lacks some of the system calls that the agent uses
/// for files.
#[test]
fn the_same_holds_under_the_kernel_of_gvisor() {
    if gvisor().is_none() {
        return;
    }
    let records = tempfile::tempdir().expect("a temporary folder");
    let mut kernel = Command::new(runsc());
    kernel.arg("--root").arg(records.path());
    kernel.args(["--platform=systrap", "--network=none", "--ignore-cgroups", "--overlay2=none"]);
    // The host's file system without an overlay, as a guest has its disk. The tests remove their files.
    kernel.args(["do", "--force-overlay=false"]).arg(std::env::current_exe().expect("this program"));
    kernel.args(["agent::files::", "--test-threads", "2"]);
    // Itself, and a test that needs the memory peak, which gVisor does not report.
    for skipped in ["kernel_of_gvisor", "through_little_memory"] {
        kernel.args(["--skip", skipped]);
    }
    let output = kernel.output().expect("runsc");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("folders::removal_tells_what_went_and_never_follows_a_link ... ok"), "{report}");
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_put_once_and_never_replaced() {
    let agent = RunningAgent::headless().await;
    let desktop = agent.home().join("Desktop");
    let put = agent.put("report.pdf", "first").await;
    let path = desktop.join("report.pdf");
    assert_eq!((put.status, put.body), (200, json!({"path": path, "outcome": "created"})));
    let again = agent.put("report.pdf", "second").await;
    assert_eq!((again.status, again.body), (200, json!({"path": path, "outcome": "exists"})));
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");

    fs::create_dir(desktop.join("folder")).unwrap();
    symlink("/etc/hostname", desktop.join("link")).unwrap();
    symlink("nowhere", desktop.join("dangling")).unwrap();
    nix::unistd::mkfifo(&desktop.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["folder", "link", "dangling", "fifo"] {
        assert_eq!(agent.put(name, "x").await.body["outcome"], json!("exists"), "{name}");
    }
    assert!(!desktop.join("nowhere").exists());

    let racing_uploads = (0..8).map(|number| agent.put("raced", format!("{number}").repeat(100_000)));
    let outcomes = futures_util::future::join_all(racing_uploads).await;
    assert_eq!(outcomes.iter().filter(|put| put.body["outcome"] == "created").count(), 1);
    let outcome = fs::read_to_string(desktop.join("raced")).unwrap();
    assert!(outcome.len() == 100_000 && outcome.bytes().all(|byte| byte == outcome.as_bytes()[0]));
    assert_eq!(names(&desktop), ["dangling", "fifo", "folder", "link", "raced", "report.pdf"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_refused_and_odd_ones_kept() {
    let agent = RunningAgent::headless().await;
    for bad in
        ["..%2fx", "%2fetc%2fpasswd", "a%00b", "a%0ab", "a%5cb", "%ff", "%20", "%e2%80%aex", &"x".repeat(256)]
    {
        assert_eq!(agent.put(bad, "x").await.status, 400, "{bad}");
    }
    for (good, name) in [("-rf", "-rf"), ("%e5%90%8d.txt", "名.txt"), ("a%20b", "a b"), ("%24(id)", "$(id)")]
    {
        assert_eq!(agent.put(good, "x").await.body["outcome"], json!("created"), "{good}");
        assert_eq!(fs::read_to_string(agent.home().join("Desktop").join(name)).unwrap(), "x");
    }
    assert_eq!(names(&agent.home()), ["Desktop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_that_is_not_a_plain_folder_is_not_followed() {
    let agent = RunningAgent::headless().await;
    let desktop = agent.home().join("Desktop");
    let elsewhere = agent.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for target in [elsewhere.clone(), "elsewhere".into(), "/etc".into(), "nowhere".into()] {
        symlink(&target, &desktop).unwrap();
        let refused = agent.put("x", "x").await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (409, &json!("desktop_not_a_folder")),
            "{target:?}"
        );
        fs::remove_file(&desktop).unwrap();
    }
    fs::write(&desktop, "a file").unwrap();
    assert_eq!(agent.put("x", "x").await.status, 409);
    fs::remove_file(&desktop).unwrap();
    assert_eq!(names(&elsewhere), Vec::<String>::new());
    assert_eq!(agent.put("x", "x").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_mebibytes_fit_and_one_byte_more_leaves_nothing() {
    let agent = RunningAgent::headless().await;
    let limit = 10 * 1024 * 1024;
    assert_eq!(agent.put("full", vec![7; limit]).await.body["outcome"], json!("created"));
    assert_eq!(fs::metadata(agent.home().join("Desktop/full")).unwrap().len(), limit as u64);
    assert_eq!(agent.put("empty", "").await.body["outcome"], json!("created"));
    let oversized = agent.request(Method::PUT, "/files/desktop/over").body(vec![7; limit + 1]).send().await;
    // The refusal may come while the client still sends, which the client sees as a broken connection.
    if let Ok(response) = oversized {
        assert_eq!(response.status(), 413);
    }
    assert_eq!(names(&agent.home().join("Desktop")), ["empty", "full"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let agent = RunningAgent::headless().await;
    let desktop = agent.home().join("Desktop");
    for ending in ["hang up", "garbage"] {
        let mut stream = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
        let head = format!(
            "PUT /files/desktop/broken HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            agent.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let started = hotdesk::base::wait::until(Duration::from_secs(30), || {
            let begun = desktop.exists() && !names(&desktop).is_empty();
            async move { begun.then_some(()) }
        });
        started.await.expect("an unfinished file must appear");
        if ending == "garbage" {
            stream.write_all(b"zzzz\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        }
        drop(stream);
        let cleaned = hotdesk::base::wait::until(Duration::from_secs(30), || {
            let clean = names(&desktop).is_empty();
            async move { clean.then_some(()) }
        });
        cleaned.await.unwrap_or_else(|| panic!("{ending}: left {:?}", names(&desktop)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_leaves_nothing() {
    let agent = RunningAgent::headless().await;
    let desktop = agent.home().join("Desktop");
    fs::create_dir(&desktop).unwrap();
    let source = Some("tmpfs");
    let flags = nix::mount::MsFlags::empty();
    if let Err(error) = nix::mount::mount(source, &desktop, source, flags, Some("size=1m")) {
        Capability::Root.skip(format_args!("cannot mount a small tmpfs: {error}"));
        return;
    }
    let full = agent.put("big", vec![7; 4 * 1024 * 1024]).await;
    let left = names(&desktop);
    let small = agent.put("small", "x").await;
    nix::mount::umount(&desktop).unwrap();
    assert_eq!((full.status, &full.body["code"]), (503, &json!("disk_full")));
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(small.body["outcome"], json!("created"));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_regular_file_comes_out_as_it_is_and_nothing_else_hangs() {
    let agent = RunningAgent::headless().await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    fs::write(agent.home().join("a.png"), &content).unwrap();
    fs::write(agent.home().join("a b&c"), b"").unwrap();
    nix::unistd::mkfifo(&agent.home().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let absolute = agent.home().join("a.png").to_string_lossy().into_owned();
    for path in ["a.png", "~/a.png", "/home/user/a.png", &absolute] {
        let request = agent.request(Method::GET, "/files/content").query(&[("path", path)]);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], "image/png");
        assert_eq!(response.content_length(), Some(content.len() as u64));
        assert_eq!(response.bytes().await.unwrap(), content, "{path}");
    }
    let empty =
        agent.request(Method::GET, "/files/content").query(&[("path", "a b&c")]).send().await.unwrap();
    assert_eq!((empty.status().as_u16(), empty.content_length()), (200, Some(0)));
    for (path, status) in
        [("none", 404), ("fifo", 400), (".", 400), ("/dev/zero", 400), ("", 400), ("a\0b", 400)]
    {
        let request = agent.request(Method::GET, "/files/content").query(&[("path", path)]);
        let refused = fetch_json(request).await;
        assert_eq!(refused.status, status, "{path:?}");
        assert!(refused.took < Duration::from_secs(20));
    }
    assert_eq!(agent.get("/files/content").await.status, 400);
}
