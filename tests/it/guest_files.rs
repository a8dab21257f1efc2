//! Files of a computer through the controller: streamed, unchanged, and safe from a hostile agent.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::clients::python;
use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::fake_agent::FakeAgent;
use crate::harness::simulation::Simulation;

/// Peak resident memory of a process in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a field");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_through_the_controller_and_tuspy_resumes() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    files_go_in_and_out(RunningController::boot().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_over_gvisor_too() {
    let Some(configuration) = gvisor() else { return };
    files_go_in_and_out(RunningController::boot_with(&configuration).await).await;
}

async fn files_go_in_and_out(controller: RunningController) {
    let workspace = controller.workspace("demo").await;
    let created = controller.computer(&workspace, "one").await;
    let id = created["id"].as_str().expect("text");
    let at = |rest: &str| format!("/computers/{id}/files{rest}");
    expect_own_files_unserved(&controller, id).await;

    // A small transfer first, so that only the large one counts towards the peak.
    let small = controller
        .request(Method::PUT, &at("/content?path=Desktop/small"))
        .body("small")
        .send()
        .await
        .expect("an answer");
    assert_eq!(small.status(), 200, "{}", small.text().await.expect("a body"));
    let before = peak_kib(controller.pid());
    let pieces = (0..200).map(|number: u8| Ok::<_, std::io::Error>(vec![number; 1 << 20]));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let put = fetch_json(controller.request(Method::PUT, &at("/content?path=large")).body(body)).await;
    assert_eq!((put.status, &put.body["size"]), (200, &json!(200 << 20)), "{}", put.body);
    assert_eq!(put.body["path"], "/root/large");
    let mut got =
        controller.request(Method::GET, &at("/content?path=large")).send().await.expect("an answer");
    assert_eq!((got.status().as_u16(), got.content_length()), (200, Some(200 << 20)));
    assert!(got.headers()["content-security-policy"].to_str().expect("text").starts_with("sandbox"));
    let mut size = 0;
    while let Some(piece) = got.chunk().await.expect("a body") {
        size += piece.len();
    }
    let grown = peak_kib(controller.pid()) - before;
    println!("the controller grew by {grown} KiB at most");
    assert!(size == 200 << 20 && grown < 64 * 1024, "{size} bytes, {grown} KiB");

    let range =
        controller.request(Method::GET, &at("/content?path=large")).header("range", "bytes=1048575-1048576");
    let range = range.send().await.expect("an answer");
    assert_eq!((range.status().as_u16(), &range.bytes().await.expect("a body")[..]), (206, &[0, 1][..]));
    let beyond =
        controller.request(Method::GET, &at("/content?path=large")).header("range", "bytes=999999999-");
    let beyond = beyond.send().await.expect("an answer");
    assert_eq!(beyond.headers()["content-range"], "bytes */209715200");
    assert_eq!(
        (beyond.status().as_u16(), &beyond.json::<Value>().await.expect("a body")["code"]),
        (416, &json!("range_not_satisfiable"))
    );
    let head = controller.request(Method::HEAD, &at("/content?path=large")).send().await.expect("an answer");
    assert_eq!(
        (head.status().as_u16(), &head.headers()["content-length"]),
        (200, &"209715200".parse().expect("a number"))
    );
    let missing = controller.get(&at("/content?path=none")).await;
    assert_eq!((missing.status, &missing.body["upstream_status"]), (404, &json!(404)));

    let listed = controller.get(&at("/list?path=Desktop")).await;
    assert_eq!(listed.body["entries"][0]["name"], "small", "{}", listed.body);
    assert_eq!(controller.post(&at("/mkdir"), json!({"path": "a/b", "parents": true})).await.status, 200);
    let moved = controller.post(&at("/move"), json!({"from": "Desktop/small", "to": "a/b/small"})).await;
    assert_eq!((moved.status, &moved.body["to"]), (200, &json!("/root/a/b/small")), "{}", moved.body);
    assert_eq!(controller.get(&at("/stat?path=a/b/small")).await.body["size"], 5);
    let packed = controller
        .request(Method::GET, &at("/archive?path=a"))
        .send()
        .await
        .expect("an answer")
        .bytes()
        .await
        .expect("a body");
    let unpacked = fetch_json(controller.request(Method::PUT, &at("/archive?path=c")).body(packed)).await;
    assert_eq!((unpacked.status, &unpacked.body["files"]), (200, &json!(1)), "{}", unpacked.body);
    assert_eq!(controller.bash(id, "cat c/b/small").await, "small");
    // /home/user/Desktop is a link in the image to /root/Desktop.
    let alias = controller
        .request(Method::PUT, &at("/content?path=/home/user/Desktop/x"))
        .body("x")
        .send()
        .await
        .expect("an answer");
    assert_eq!(alias.status(), 200, "{}", alias.text().await.expect("a body"));
    assert_eq!(controller.bash(id, "cat /root/Desktop/x").await, "x");
    let gone = fetch_json(controller.request(Method::DELETE, &at("?path=a&recursive=true"))).await;
    assert_eq!((gone.status, &gone.body["files"], &gone.body["folders"]), (200, &json!(1), &json!(2)));
    let root = fetch_json(controller.request(Method::DELETE, &at("?path=/&recursive=true"))).await;
    assert_eq!((root.status, &root.body["code"]), (400, &json!("protected_path")));

    let Some(python) = python() else { return };
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/tus_client.py"));
    client.arg(format!("{}/api{}", controller.base(), at("/uploads"))).arg("videos/large.bin");
    client.env("HOTDESK_API_KEY", controller.key());
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("a thread").expect("Python");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let hashed = controller.get(&at("/hash?path=videos/large.bin")).await;
    assert_eq!(hashed.body["hash"], output.trim(), "{}", hashed.body);
}

/// Asserts that no read of files returns hotdesk's own ones, by whatever path.
async fn expect_own_files_unserved(controller: &RunningController, id: &str) {
    let token = controller
        .bash(id, "ln -s /run/hotdesk/token /root/link; echo hello >/run/other; cat /run/hotdesk/token")
        .await;
    assert!(token.trim().len() > 20, "the token is where the test looks for it");
    let read = async |path: &str| {
        let request = controller.request(Method::GET, &format!("/computers/{id}/files{path}"));
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.bytes().await.expect("a body"))
    };
    for path in [
        "/content?path=/run/hotdesk/token",
        "/content?path=/var/run/hotdesk/token",
        "/content?path=/root/../run/hotdesk/token",
        "/content?path=/proc/1/root/run/hotdesk/token",
        "/content?path=link",
        "/stat?path=/run/hotdesk/token",
        "/hash?path=/run/hotdesk/token",
        "/list?path=/run/hotdesk",
        "/archive?path=/run/hotdesk",
    ] {
        let (status, body) = read(path).await;
        // gVisor shows nobody the root of another process.
        let elsewhere = path.contains("/proc/") && status == 403;
        assert!(status == 400 || elsewhere, "{path}: {status}: {}", String::from_utf8_lossy(&body));
    }
    // The folder that contains them is served without them.
    let (status, archive) = read("/archive?path=/run").await;
    let holds = |text: &str| archive.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(status == 200 && holds("hello"), "{status}, {} bytes", archive.len());
    assert!(!holds(token.trim()), "the archive holds the token");
}

#[tokio::test(flavor = "multi_thread")]
async fn tus_passes_only_with_a_key_and_what_is_no_operation_of_the_document_too() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("demo").await;
    let computer = controller.computer(&workspace, "one").await;
    let uploads = format!("/api/computers/{computer}/files/uploads");
    let one = format!("{uploads}/00000000-0000-4000-8000-000000000000");
    for (method, path) in
        [(Method::OPTIONS, &uploads), (Method::OPTIONS, &one), (Method::HEAD, &one), (Method::POST, &one)]
    {
        let refused = controller
            .bare(method.clone(), path)
            .header("tus-resumable", "1.0.0")
            .send()
            .await
            .expect("an answer");
        assert_eq!(refused.status(), 401, "{method} {path}");
    }
    let head = controller.bare(Method::HEAD, &format!("/api/computers/{computer}/files/content?path=x"));
    assert_eq!(head.send().await.expect("an answer").status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_agent_chooses_neither_places_nor_pages_nor_endless_answers() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("demo").await;
    let computer = controller.computer(&workspace, "one").await;
    let socket = controller.socket(&computer);
    let ask = |path: &str| controller.request(Method::GET, &format!("/computers/{computer}/files{path}"));
    let answer = |status: &str, fields: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\n{fields}\r\n{body}")
    };

    let _unsized = FakeAgent::at(&socket, answer("200 OK", "Content-Type: text/html\r\n", "<script>"));
    let refused = fetch_json(ask("/content?path=x")).await;
    assert_eq!(refused.status, 500, "{}", refused.body);

    let fields =
        "Content-Length: 8\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nLocation: http://evil/\r\n";
    let _page = FakeAgent::at(&socket, answer("200 OK", fields, "<script>"));
    let page = ask("/content?path=x").send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    assert!(page.headers()["content-security-policy"].to_str().expect("text").starts_with("sandbox"));
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert!(!page.headers().contains_key("set-cookie") && !page.headers().contains_key("location"));

    let _redirect =
        FakeAgent::at(&socket, answer("302 Found", "Location: http://evil/\r\nContent-Length: 0\r\n", ""));
    let redirect = ask("/archive?path=x").send().await.expect("an answer");
    assert_eq!(redirect.status(), 500);
    assert!(!redirect.headers().contains_key("location"));

    let short = FakeAgent::at(&socket, answer("200 OK", "Content-Length: 100\r\n", "short"));
    let cut = ask("/content?path=x%20y&other=%2F").send().await.expect("an answer");
    assert!(cut.bytes().await.is_err(), "a truncated body must be an error");
    let line = short.requests()[0].lines().next().unwrap().to_owned();
    assert_eq!(line, "GET /files/content?path=x%20y&other=%2F HTTP/1.1");
    drop(short);

    for location in ["http://evil/files/uploads/x", "/etc/passwd", "//evil/../x"] {
        let fields = format!("Location: {location}\r\nTus-Resumable: 1.0.0\r\nContent-Length: 0\r\n");
        let _elsewhere = FakeAgent::at(&socket, answer("201 Created", &fields, ""));
        let created = controller.request(Method::POST, &format!("/computers/{computer}/files/uploads"));
        let created = created
            .header("tus-resumable", "1.0.0")
            .header("upload-length", "1")
            .send()
            .await
            .expect("an answer");
        assert_eq!(created.status(), 500, "{location}");
        assert!(!created.headers().contains_key("location"));
    }
}
