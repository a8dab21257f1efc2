//! Resumable uploads (tus 1.0.0) over broken connections and agent crashes.
//!
//! A complete upload obeys the rules of all other files.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotdesk::base::wait;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use super::names;
use crate::harness::agent::RunningAgent;

fn metadata(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value))).collect::<Vec<_>>().join(",")
}

fn tus(agent: &RunningAgent, method: Method, path: &str) -> RequestBuilder {
    agent.request(method, path).header("tus-resumable", "1.0.0")
}

fn create_request(agent: &RunningAgent, length: usize, pairs: &[(&str, &str)]) -> RequestBuilder {
    tus(agent, Method::POST, "/files/uploads")
        .header("upload-length", length.to_string())
        .header("upload-metadata", metadata(pairs))
}

async fn new_upload(agent: &RunningAgent, length: usize, pairs: &[(&str, &str)]) -> String {
    let response = create_request(agent, length, pairs).send().await.expect("an answer");
    assert_eq!(response.status(), 201, "{}", response.text().await.expect("text"));
    header(&response, "location")
}

fn patch(
    agent: &RunningAgent,
    location: &str,
    upload_offset: usize,
    body: impl Into<reqwest::Body>,
) -> RequestBuilder {
    tus(agent, Method::PATCH, location)
        .header("content-type", "application/offset+octet-stream")
        .header("upload-offset", upload_offset.to_string())
        .body(body)
}

fn header(response: &Response, name: &str) -> String {
    response.headers().get(name).map_or(String::new(), |value| value.to_str().expect("text").to_owned())
}

async fn upload_offset(agent: &RunningAgent, location: &str) -> String {
    header(&tus(agent, Method::HEAD, location).send().await.expect("an answer"), "upload-offset")
}

fn uploads_folder(agent: &RunningAgent) -> PathBuf {
    agent.home().join(".local/state/hotdesk/uploads")
}

/// Waits until an upload's file has this many bytes. `HEAD` would stop the request that writes it.
async fn until_written(agent: &RunningAgent, location: &str, bytes: u64) {
    let file = uploads_folder(agent).join(format!("{}.part", location.rsplit('/').next().expect("an id")));
    let written = wait::until(Duration::from_secs(30), || async {
        (fs::metadata(&file).expect("the upload's file").len() == bytes).then_some(())
    });
    written.await.expect("the sent bytes must be stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_after_the_agent_was_killed() {
    let mut agent = RunningAgent::headless().await;
    let content: Vec<u8> = (0..30_000_000_u32).map(|number| (number / 7) as u8).collect();
    let location =
        new_upload(&agent, content.len(), &[("path", "a/large"), ("parents", "true"), ("mode", "600")]).await;
    let first = patch(&agent, &location, 0, content[..11_000_000].to_vec()).send().await.unwrap();
    assert_eq!((first.status().as_u16(), header(&first, "upload-offset").as_str()), (204, "11000000"));
    assert!(header(&first, "upload-expires").ends_with(" GMT"));
    agent.restart().await;
    let observed = tus(&agent, Method::HEAD, &location).send().await.unwrap();
    for (name, value) in [
        ("upload-offset", "11000000"),
        ("upload-length", "30000000"),
        ("cache-control", "no-store"),
        ("tus-resumable", "1.0.0"),
        ("upload-metadata", &metadata(&[("path", "a/large"), ("parents", "true"), ("mode", "600")])),
    ] {
        assert_eq!(header(&observed, name), value);
    }
    assert!(!agent.home().join("a/large").exists());
    let last = patch(&agent, &location, 11_000_000, content[11_000_000..].to_vec()).send().await.unwrap();
    assert_eq!((last.status().as_u16(), header(&last, "upload-offset").as_str()), (204, "30000000"));
    assert!(fs::read(agent.home().join("a/large")).unwrap() == content);
    assert_eq!(names(&agent.home().join("a")), ["large"]);
    // A finished upload is still known, also to a later agent, and occupies no space.
    agent.restart().await;
    assert_eq!(upload_offset(&agent, &location).await, "30000000");
    assert_eq!(names(&uploads_folder(&agent)).len(), 1);
    assert_eq!(tus(&agent, Method::DELETE, &location).send().await.unwrap().status(), 204);
    assert_eq!(tus(&agent, Method::DELETE, &location).send().await.unwrap().status(), 404);
    assert!(agent.home().join("a/large").exists() && names(&uploads_folder(&agent)).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrived_before_a_line_broke_is_kept_and_the_next_request_takes_over() {
    use tokio::io::AsyncWriteExt;
    let agent = RunningAgent::headless().await;
    let location = new_upload(&agent, 10, &[("filename", "x.txt")]).await;
    let head = format!(
        "PATCH {location} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n\
         Content-Type: application/offset+octet-stream\r\nContent-Length: 10\r\n\r\n0123",
        agent.token()
    );
    // A connection that neither continues nor closes, like one whose client lost its network.
    let mut silent = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
    silent.write_all(head.as_bytes()).await.unwrap();
    until_written(&agent, &location, 4).await;
    let second = patch(&agent, &location, 4, "45").send().await.unwrap();
    assert_eq!((second.status().as_u16(), header(&second, "upload-offset").as_str()), (204, "6"));
    drop(silent);
    let mut broken = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
    let head =
        head.replace("Offset: 0", "Offset: 6").replace("Length: 10", "Length: 4").replace("0123", "67");
    broken.write_all(head.as_bytes()).await.unwrap();
    until_written(&agent, &location, 8).await;
    drop(broken);
    assert_eq!(upload_offset(&agent, &location).await, "8");
    assert_eq!(patch(&agent, &location, 8, "89").send().await.unwrap().status(), 204);
    assert_eq!(fs::read_to_string(agent.home().join("Desktop/x.txt")).unwrap(), "0123456789");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_that_was_told_stays_true_although_an_earlier_request_sends_more() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let agent = RunningAgent::headless().await;
    let location = new_upload(&agent, 10, &[("filename", "x.txt")]).await;
    let head = format!(
        "PATCH {location} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n\
         Content-Type: application/offset+octet-stream\r\nContent-Length: 10\r\n\r\n0123",
        agent.token()
    );
    let mut earlier = tokio::net::TcpStream::connect(agent.address()).await.unwrap();
    earlier.write_all(head.as_bytes()).await.unwrap();
    until_written(&agent, &location, 4).await;
    assert_eq!(upload_offset(&agent, &location).await, "4");
    // The bytes of the earlier request that arrive now are not the client's any more.
    earlier.write_all(b"....").await.unwrap();
    let mut answer = [0; 12];
    earlier.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 409");
    assert_eq!(patch(&agent, &location, 4, "456789").send().await.unwrap().status(), 204);
    assert_eq!(fs::read_to_string(agent.home().join("Desktop/x.txt")).unwrap(), "0123456789");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tus_forbids_is_refused_with_its_status() {
    let agent = RunningAgent::headless().await;
    let options = agent.request(Method::OPTIONS, "/files/uploads").send().await.unwrap();
    assert_eq!(options.status(), 204);
    for (name, value) in [
        ("tus-version", "1.0.0"),
        ("tus-resumable", "1.0.0"),
        ("tus-extension", "creation,expiration,termination"),
        ("tus-max-size", "1099511627776"),
    ] {
        assert_eq!(header(&options, name), value);
    }
    let location = new_upload(&agent, 10, &[("path", "x")]).await;
    let anonymous = "/files/uploads/00000000-0000-4000-8000-000000000000";
    let bare = |method, path: &str| agent.request(method, path);
    let long = "1".repeat(30);
    for (what, request, status) in [
        ("no version", bare(Method::HEAD, &location), 412),
        ("no version", bare(Method::POST, "/files/uploads").header("upload-length", "1"), 412),
        ("another version", bare(Method::HEAD, &location).header("tus-resumable", "0.2.2"), 412),
        (
            "no length",
            tus(&agent, Method::POST, "/files/uploads").header("upload-metadata", metadata(&[("path", "y")])),
            400,
        ),
        ("no metadata", tus(&agent, Method::POST, "/files/uploads").header("upload-length", "1"), 400),
        ("a huge length", tus(&agent, Method::POST, "/files/uploads").header("upload-length", long), 400),
        ("too large", create_request(&agent, 1 << 41, &[("path", "y")]), 413),
        ("no room", create_request(&agent, 1 << 40, &[("path", "y")]), 503),
        ("a name", create_request(&agent, 1, &[("filename", "../y")]), 400),
        ("a path", create_request(&agent, 1, &[("path", "none/y")]), 404),
        ("unknown", tus(&agent, Method::HEAD, anonymous), 404),
        ("no id", tus(&agent, Method::HEAD, "/files/uploads/x"), 404),
        ("unknown", patch(&agent, anonymous, 0, "x"), 404),
        ("wrong offset", patch(&agent, &location, 1, "x"), 409),
        ("too much", patch(&agent, &location, 0, "0123456789x"), 413),
        (
            "no offset",
            tus(&agent, Method::PATCH, &location).header("content-type", "application/offset+octet-stream"),
            400,
        ),
        (
            "type",
            tus(&agent, Method::PATCH, &location)
                .header("upload-offset", "0")
                .header("content-type", "text/plain"),
            415,
        ),
        ("no type", tus(&agent, Method::PATCH, &location).header("upload-offset", "0"), 415),
        ("override", tus(&agent, Method::POST, &location).header("x-http-method-override", "PUT"), 400),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{what}");
        assert_eq!(header(&response, "tus-resumable"), "1.0.0", "{what}");
    }
    assert_eq!(upload_offset(&agent, &location).await, "0");
    // Chunked, so that the length is not known in advance.
    let endless = futures_util::stream::iter((0..3).map(|_| Ok::<_, std::io::Error>("01234")));
    let body = reqwest::Body::wrap_stream(endless);
    assert_eq!(patch(&agent, &location, 0, body).send().await.unwrap().status(), 413);
    let so_far = upload_offset(&agent, &location).await.parse::<usize>().unwrap();
    assert!(so_far <= 10 && !(so_far < 10 && agent.home().join("x").exists()));
    // A client behind a proxy that allows only POST, and an empty upload.
    let location = new_upload(&agent, 2, &[("path", "y")]).await;
    let posted = tus(&agent, Method::POST, &location)
        .header("x-http-method-override", "PATCH")
        .header("content-type", "application/offset+octet-stream")
        .header("upload-offset", "0")
        .body("ok");
    assert_eq!(posted.send().await.unwrap().status(), 204);
    assert_eq!(fs::read_to_string(agent.home().join("y")).unwrap(), "ok");
    new_upload(&agent, 0, &[("path", "empty")]).await;
    assert_eq!(fs::read(agent.home().join("empty")).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_upload_that_finds_its_name_taken_says_so_until_it_is_free() {
    let agent = RunningAgent::headless().await;
    let location = new_upload(&agent, 3, &[("path", "x")]).await;
    let taken = create_request(&agent, 3, &[("path", "Desktop")]).send().await.unwrap();
    assert_eq!(taken.status(), 201);
    fs::write(agent.home().join("x"), "mine").unwrap();
    assert_eq!(create_request(&agent, 3, &[("path", "x")]).send().await.unwrap().status(), 409);
    let refused = patch(&agent, &location, 0, "new").send().await.unwrap();
    assert_eq!(refused.status(), 409);
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "already_exists");
    let unseen = tus(&agent, Method::HEAD, &location).send().await.unwrap();
    assert_eq!((unseen.status().as_u16(), header(&unseen, "upload-offset").as_str()), (409, ""));
    assert_eq!(fs::read_to_string(agent.home().join("x")).unwrap(), "mine");
    fs::remove_file(agent.home().join("x")).unwrap();
    assert_eq!(upload_offset(&agent, &location).await, "3");
    assert_eq!(fs::read_to_string(agent.home().join("x")).unwrap(), "new");
    let overwriting = new_upload(&agent, 4, &[("path", "x"), ("overwrite", "true")]).await;
    assert_eq!(patch(&agent, &overwriting, 0, "over").send().await.unwrap().status(), 204);
    assert_eq!(fs::read_to_string(agent.home().join("x")).unwrap(), "over");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_gone_and_what_a_crash_left_is_swept() {
    let mut agent = RunningAgent::headless().await;
    let old = new_upload(&agent, 10, &[("path", "old")]).await;
    let older = new_upload(&agent, 10, &[("path", "older")]).await;
    let fresh = new_upload(&agent, 10, &[("path", "fresh")]).await;
    let id = |location: &str| location.rsplit('/').next().unwrap().to_owned();
    let days_ago = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    let age = |name: &str| {
        let file = fs::File::options().append(true).open(uploads_folder(&agent).join(name)).unwrap();
        file.set_modified(days_ago).unwrap();
    };
    age(&format!("{}.part", id(&old)));
    age(&format!("{}.part", id(&older)));
    let orphan = "11111111-0000-4000-8000-000000000000.part";
    fs::write(uploads_folder(&agent).join(orphan), "x").unwrap();
    age(orphan);
    fs::write(uploads_folder(&agent).join("notes.txt"), "somebody's own").unwrap();
    let gone = tus(&agent, Method::HEAD, &old).send().await.unwrap();
    assert_eq!((gone.status().as_u16(), header(&gone, "upload-offset").as_str()), (404, ""));
    agent.restart().await;
    let expected = [format!("{}.json", id(&fresh)), format!("{}.part", id(&fresh)), "notes.txt".to_owned()];
    let swept = wait::until(Duration::from_secs(30), || async {
        (names(&uploads_folder(&agent)) == expected).then_some(())
    });
    swept.await.unwrap_or_else(|| panic!("left {:?}", names(&uploads_folder(&agent))));
    assert_eq!(upload_offset(&agent, &fresh).await, "0");
}
