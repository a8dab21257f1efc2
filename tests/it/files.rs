//! Do files reach computers and come back as interface.md "Files" and wire.md 9 say?

mod names;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::controller::{RunningController, no_computers_here};

const BOUNDARY: &str = "a-boundary-of-the-tests";

/// One part of a form: its name, its file name if it has one, its bytes.
type Part<'a> = (&'a str, Option<&'a [u8]>, &'a [u8]);

/// Sends a form written by hand, so that names arrive as they are.
async fn send(house: &RunningController, parts: &[Part<'_>]) -> Answered {
    let mut body = Vec::new();
    for (name, file_name, bytes) in parts {
        body.extend_from_slice(
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        if let Some(file_name) = file_name {
            body.extend_from_slice(b"; filename=\"");
            body.extend_from_slice(file_name);
            body.extend_from_slice(b"\"\r\nContent-Type: text/plain");
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let request = house.request(Method::POST, "/files/upload");
    answered(request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(body))
        .await
}

async fn upload(house: &RunningController, workspace: &str, name: &str, bytes: &[u8]) -> Answered {
    send(house, &[("file", Some(name.as_bytes()), bytes), ("projectId", None, workspace.as_bytes())]).await
}

async fn fetch(url: &str) -> (u16, Vec<u8>) {
    let answer = crate::harness::client().get(url).send().await.expect("an answer");
    (answer.status().as_u16(), answer.bytes().await.expect("a body").to_vec())
}

fn outcomes(uploaded: &Answered) -> Vec<(String, String)> {
    assert_eq!(uploaded.status, 200, "{}", uploaded.body);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let deliveries = uploaded.body["deliveries"].as_array().expect("deliveries").iter();
    let mut told: Vec<_> = deliveries.map(|one| (text(&one["computer_id"]), text(&one["outcome"]))).collect();
    told.sort();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_reaches_every_computer_and_replaces_nothing() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let (workspace, other) = (house.workspace("demo").await, house.workspace("other").await);
    let mut ids = Vec::new();
    for (workspace, name) in [(&workspace, "one"), (&workspace, "two"), (&other, "elsewhere")] {
        ids.push(house.computer(workspace, name).await["id"].as_str().unwrap().to_owned());
    }
    let (one, two, elsewhere) = (&ids[0], &ids[1], &ids[2]);
    house.bash(two, "mkdir -p Desktop; echo mine > Desktop/report.txt").await;
    let created = |id: &str| (id.to_owned(), "created".to_owned());
    let exists = |id: &str| (id.to_owned(), "exists".to_owned());
    let sorted = |mut told: Vec<(String, String)>| {
        told.sort();
        told
    };
    let first = upload(&house, &workspace, "report.txt", b"theirs\n").await;
    assert_eq!(outcomes(&first), sorted(vec![created(one), exists(two)]));
    let file = &first.body["file"];
    assert_eq!((&file["filename"], &file["size_bytes"]), (&json!("report.txt"), &json!(7)));
    assert_eq!((&file["content_type"], &file["source"]), (&json!("text/plain"), &json!("upload")));
    assert!(file["created_at"].is_string() && uuid::Uuid::parse_str(file["id"].as_str().unwrap()).is_ok());
    let path = "/root/Desktop/report.txt";
    assert_eq!(first.body["deliveries"][0]["path"], path);
    assert_eq!(house.bash(one, &format!("cat {path}; stat -c '%U %a' {path}")).await, "theirs\nroot 644\n");
    assert_eq!(house.bash(two, &format!("cat {path}")).await, "mine\n");
    assert_eq!(house.bash(elsewhere, "ls Desktop 2>/dev/null; true").await, "");

    // Again, by every name of the fields; only one computer when one is named.
    for (workspace_field, computer_field) in [
        ("projectId", "desktopId"),
        ("workspaceId", "computerId"),
        ("workspace_id", "computer_id"),
        ("project_id", "desktop_id"),
    ] {
        let parts: [Part<'_>; 4] = [
            (workspace_field, None, workspace.as_bytes()),
            (computer_field, None, one.as_bytes()),
            ("unknown", None, b"x"),
            ("file", Some(computer_field.as_bytes()), b""),
        ];
        assert_eq!(outcomes(&send(&house, &parts).await), [created(one)], "{computer_field}");
    }
    assert_eq!(
        house.bash(one, "cd Desktop; cat desktopId computer_id; ls").await,
        "computerId\ncomputer_id\ndesktopId\ndesktop_id\nreport.txt\n"
    );

    // One that is stopped gets it when it starts; one that is made later gets all of the workspace's.
    house.act(two, "stop", json!({})).await;
    house.until_status(two, "stopped").await;
    assert_eq!(outcomes(&upload(&house, &workspace, "later.txt", b"later").await), [created(one)]);
    house.act(two, "start", json!({})).await;
    house.until_status(two, "running").await;
    assert_eq!(house.bash(two, "cat Desktop/later.txt; ls Desktop").await, "laterlater.txt\nreport.txt\n");
    let third = house.computer(&workspace, "three").await;
    let third = third["id"].as_str().unwrap();
    assert_eq!(
        house.bash(third, "ls Desktop; cat Desktop/report.txt").await,
        "later.txt\nreport.txt\ntheirs\n"
    );
    // Given once: what its user removed does not come back with a restart.
    house.bash(third, "rm Desktop/later.txt").await;
    house.act(third, "restart", json!({})).await;
    assert_eq!(house.bash(third, "ls Desktop").await, "report.txt\n");

    // A desktop that leads elsewhere is told of, and does not stop the others.
    house.bash(two, "mv Desktop moved; ln -s /etc Desktop").await;
    let told = outcomes(&upload(&house, &workspace, "link.txt", b"x").await);
    assert!(told.contains(&(two.clone(), "failed".to_owned())) && told.contains(&created(one)), "{told:?}");
    assert_eq!(house.bash(two, "ls /etc/link.txt 2>/dev/null; true").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_exported_downloaded_and_deleted() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let (workspace, other) = (house.workspace("demo").await, house.workspace("other").await);
    let made = house.computer(&workspace, "one").await;
    let (id, instance) = (made["id"].as_str().unwrap(), made["instance_id"].as_str().unwrap());
    let uploaded = upload(&house, &workspace, "up é.txt", b"content").await.body["file"].clone();
    house.bash(id, "mkdir -p sub; echo deep > sub/a.txt; : > empty; head -c 3000000 /dev/urandom > big; ln -s /etc/shadow link; mkfifo fifo").await;

    for (handle, path, content) in [
        (id, "sub/a.txt", Some("deep\n")),
        (instance, "~/sub/a.txt", Some("deep\n")),
        (id, "/root/sub/a.txt", Some("deep\n")),
        (id, "/home/user/sub/a.txt", Some("deep\n")),
        (id, "empty", Some("")),
        (id, "big", None),
    ] {
        let exported = house.post("/files/export", json!({"desktopId": handle, "path": path})).await;
        assert_eq!(
            (exported.status, &exported.body["success"]),
            (200, &json!(true)),
            "{path}: {}",
            exported.body
        );
        assert_eq!(exported.body["file"]["source"], "export");
        let url = exported.body["url"].as_str().unwrap();
        assert!(url.starts_with("http://"), "{url}");
        let (status, bytes) = fetch(url).await;
        assert_eq!(
            (status, bytes.len() as u64),
            (200, exported.body["file"]["size_bytes"].as_u64().unwrap())
        );
        if let Some(content) = content {
            assert_eq!(bytes, content.as_bytes(), "{path}");
        }
    }
    for (path, statuses) in [
        ("none", &[404_u16][..]),
        ("", &[400]),
        ("sub", &[400]),
        ("sub/", &[400]),
        ("fifo", &[400]),
        ("../etc/passwd", &[403]),
        ("/root/../etc/passwd", &[403]),
        ("/etc/passwd", &[403]),
        ("/proc/self/environ", &[403]),
        ("~root/x", &[404]),
        ("a\0b", &[400]),
        (&"x/".repeat(3000), &[400]),
    ] {
        let refused = house.post("/files/export", json!({"desktopId": id, "path": path})).await;
        assert!(statuses.contains(&refused.status), "{path:.40}: {} {}", refused.status, refused.body);
        assert!(refused.body["error"].is_string());
    }
    for body in
        [json!({}), json!({"desktopId": id}), json!({"path": "x"}), json!({"desktopId": 1, "path": "x"})]
    {
        assert_eq!(house.post("/files/export", body.clone()).await.status, 400, "{body}");
    }
    let blobs = house.blobs("files").len();
    assert_eq!(blobs, 7, "a refused export leaves no blob");

    for (query, count) in [
        (format!("projectId={workspace}"), 7),
        (format!("workspace_id={workspace}&desktopId={id}"), 7),
        (format!("workspaceId={workspace}&computer_id={instance}"), 7),
        (format!("project_id={other}"), 0),
    ] {
        let listed = house.get(&format!("/files?{query}")).await;
        assert_eq!(listed.body["files"].as_array().map(Vec::len), Some(count), "{query}: {}", listed.body);
    }
    let listed = house.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(listed["files"][6], uploaded, "newest first");
    for (query, status) in [
        (String::new(), 400),
        (format!("projectId={}", uuid::Uuid::new_v4()), 404),
        ("projectId=x".to_owned(), 404),
    ] {
        assert_eq!(house.get(&format!("/files?{query}")).await.status, status, "{query}");
    }

    let file = uploaded["id"].as_str().unwrap();
    let link =
        house.get(&format!("/files/download?id={file}")).await.body["url"].as_str().unwrap().to_owned();
    let answer = crate::harness::client().get(&link).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain");
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename*=UTF-8''up%20%C3%A9.txt");
    assert_eq!(answer.headers()["content-security-policy"], "sandbox; default-src 'none'");
    assert_eq!(answer.bytes().await.unwrap(), "content");
    assert_eq!(fetch(&link.replace("signature=", "signature=00")).await.0, 403);
    for (method, path) in [(Method::GET, "/files/download"), (Method::DELETE, "/files/delete")] {
        for (query, status) in [("", 400), ("?id=", 404), ("?id=x", 404), ("?id=../x", 404)] {
            let refused = answered(house.request(method.clone(), &format!("{path}{query}"))).await;
            assert_eq!(refused.status, status, "{path}{query}: {}", refused.body);
        }
        let unknown = format!("{path}?id={}", uuid::Uuid::new_v4());
        assert_eq!(answered(house.request(method.clone(), &unknown)).await.status, 404);
        let keyless = answered(house.bare(method, &format!("/api{path}?id={file}"))).await;
        assert_eq!(keyless.status, 401);
    }
    assert_eq!(house.delete(&format!("/files/delete?id={file}")).await.body, json!({"success": true}));
    assert_eq!(house.delete(&format!("/files/delete?id={file}")).await.status, 404);
    assert_eq!(fetch(&link).await.0, 404);
    assert_eq!(house.blobs("files").len(), 6);
    assert_eq!(house.bash(id, "cat 'Desktop/up é.txt'").await, "content", "the computer's copy stays");

    // What was exported outlives its computer; what was meant for it alone does not.
    let parts: [Part<'_>; 3] = [
        ("projectId", None, workspace.as_bytes()),
        ("desktopId", None, id.as_bytes()),
        ("file", Some(b"for it alone"), b"x"),
    ];
    assert_eq!(send(&house, &parts).await.status, 200);
    assert_eq!(house.blobs("files").len(), 7);
    house.delete(&format!("/computers/{id}")).await;
    assert_eq!(house.blobs("files").len(), 6);
    let later = house.computer(&workspace, "later").await;
    assert_eq!(house.bash(later["id"].as_str().unwrap(), "ls -A Desktop 2>/dev/null; true").await, "");
    let left = house.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(left["files"].as_array().unwrap().len(), 6);
    house.delete(&format!("/workspaces/{workspace}")).await;
    assert_eq!(house.blobs("files"), [""; 0], "a workspace takes its files along");
}
