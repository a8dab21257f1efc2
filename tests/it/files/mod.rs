//! Uploads, exports, downloads and deletes of workspace files (docs/api/files.md).

mod names;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::controller::{RunningController, skip_reason};

const BOUNDARY: &str = "a-boundary-of-the-tests";

/// One part of a form: its name, its file name if any, and its bytes.
type Part<'a> = (&'a str, Option<&'a [u8]>, &'a [u8]);

/// Sends a handwritten multipart form, so that no client normalizes the names.
async fn send(controller: &RunningController, parts: &[Part<'_>]) -> HttpAnswer {
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
    let request = controller.request(Method::POST, "/files/upload");
    fetch_json(request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(body))
        .await
}

async fn upload(controller: &RunningController, workspace: &str, name: &str, bytes: &[u8]) -> HttpAnswer {
    send(controller, &[("file", Some(name.as_bytes()), bytes), ("projectId", None, workspace.as_bytes())])
        .await
}

async fn fetch(url: &str) -> (u16, Vec<u8>) {
    let answer = crate::harness::client().get(url).send().await.expect("an answer");
    (answer.status().as_u16(), answer.bytes().await.expect("a body").to_vec())
}

fn outcomes(uploaded: &HttpAnswer) -> Vec<(String, String)> {
    assert_eq!(uploaded.status, 200, "{}", uploaded.body);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let deliveries = uploaded.body["deliveries"].as_array().expect("deliveries").iter();
    let mut outcomes: Vec<_> =
        deliveries.map(|one| (text(&one["computer_id"]), text(&one["outcome"]))).collect();
    outcomes.sort();
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_reaches_every_running_computer_and_replaces_nothing() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let (workspace, other) = (controller.workspace("demo").await, controller.workspace("other").await);
    let mut ids = Vec::new();
    for (workspace, name) in [(&workspace, "one"), (&workspace, "two"), (&other, "elsewhere")] {
        ids.push(controller.computer(workspace, name).await["id"].as_str().unwrap().to_owned());
    }
    let (one, two, elsewhere) = (&ids[0], &ids[1], &ids[2]);
    controller.bash(two, "mkdir -p Desktop; echo mine > Desktop/report.txt").await;
    let created = |id: &str| (id.to_owned(), "created".to_owned());
    let exists = |id: &str| (id.to_owned(), "exists".to_owned());
    let sorted = |mut outcomes: Vec<(String, String)>| {
        outcomes.sort();
        outcomes
    };
    let first = upload(&controller, &workspace, "report.txt", b"theirs\n").await;
    assert_eq!(outcomes(&first), sorted(vec![created(one), exists(two)]));
    let file = &first.body["file"];
    assert_eq!((&file["filename"], &file["size_bytes"]), (&json!("report.txt"), &json!(7)));
    assert_eq!((&file["content_type"], &file["source"]), (&json!("text/plain"), &json!("upload")));
    assert!(file["created_at"].is_string() && uuid::Uuid::parse_str(file["id"].as_str().unwrap()).is_ok());
    let path = "/root/Desktop/report.txt";
    assert_eq!(first.body["deliveries"][0]["path"], path);
    assert_eq!(
        controller.bash(one, &format!("cat {path}; stat -c '%U %a' {path}")).await,
        "theirs\nroot 644\n"
    );
    assert_eq!(controller.bash(two, &format!("cat {path}")).await, "mine\n");
    assert_eq!(controller.bash(elsewhere, "ls Desktop 2>/dev/null; true").await, "");

    // The same upload with every alias of the fields, to one named computer only.
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
        assert_eq!(outcomes(&send(&controller, &parts).await), [created(one)], "{computer_field}");
    }
    assert_eq!(
        controller.bash(one, "cd Desktop; cat desktopId computer_id; ls").await,
        "computerId\ncomputer_id\ndesktopId\ndesktop_id\nreport.txt\n"
    );

    // A stopped computer gets only what was sent to it by name, at its next start.
    controller.act(two, "stop", json!({})).await;
    controller.until_status(two, "stopped").await;
    assert_eq!(outcomes(&upload(&controller, &workspace, "later.txt", b"later").await), [created(one)]);
    let named: [Part<'_>; 3] = [
        ("projectId", None, workspace.as_bytes()),
        ("desktopId", None, two.as_bytes()),
        ("file", Some(b"named.txt"), b"named"),
    ];
    assert!(outcomes(&send(&controller, &named).await).is_empty());
    controller.act(two, "start", json!({})).await;
    controller.until_status(two, "running").await;
    assert_eq!(
        controller.bash(two, "cat Desktop/named.txt; ls Desktop").await,
        "namednamed.txt\nreport.txt\n"
    );
    // A new computer gets the earlier files of its whole workspace only if it asks.
    let third = controller.computer(&workspace, "three").await;
    assert_eq!(controller.bash(third["id"].as_str().unwrap(), "ls Desktop 2>/dev/null; true").await, "");
    let asking = json!({"workspace_id": workspace, "name": "four", "deliver_files": true});
    let fourth = controller.create("/computers", asking).await;
    let fourth = fourth["id"].as_str().unwrap();
    assert_eq!(
        controller.bash(fourth, "ls Desktop; cat Desktop/report.txt").await,
        "later.txt\nreport.txt\ntheirs\n"
    );
    // Each file is delivered once: a restart does not bring back a removed one.
    controller.bash(fourth, "rm Desktop/later.txt").await;
    controller.act(fourth, "restart", json!({})).await;
    assert_eq!(controller.bash(fourth, "ls Desktop").await, "report.txt\n");

    // A desktop that is a link fails and does not stop the other deliveries.
    controller.bash(two, "mv Desktop moved; ln -s /etc Desktop").await;
    let delivered = outcomes(&upload(&controller, &workspace, "link.txt", b"x").await);
    assert!(
        delivered.contains(&(two.clone(), "failed".to_owned())) && delivered.contains(&created(one)),
        "{delivered:?}"
    );
    assert_eq!(controller.bash(two, "ls /etc/link.txt 2>/dev/null; true").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_exported_downloaded_and_deleted() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let (workspace, other) = (controller.workspace("demo").await, controller.workspace("other").await);
    let created = controller.computer(&workspace, "one").await;
    let (id, instance) = (created["id"].as_str().unwrap(), created["instance_id"].as_str().unwrap());
    let uploaded = upload(&controller, &workspace, "up é.txt", b"content").await.body["file"].clone();
    controller.bash(id, "mkdir -p sub; echo deep > sub/a.txt; : > empty; head -c 3000000 /dev/urandom > big; ln -s /etc/shadow link; mkfifo fifo").await;

    for (handle, path, content) in [
        (id, "sub/a.txt", Some("deep\n")),
        (instance, "~/sub/a.txt", Some("deep\n")),
        (id, "/root/sub/a.txt", Some("deep\n")),
        (id, "/home/user/sub/a.txt", Some("deep\n")),
        (id, "empty", Some("")),
        (id, "big", None),
    ] {
        let exported = controller.post("/files/export", json!({"desktopId": handle, "path": path})).await;
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
        ("link", &[403]),
        ("../etc/passwd", &[403]),
        ("/root/../etc/passwd", &[403]),
        ("/etc/passwd", &[403]),
        ("/proc/self/environ", &[403]),
        ("~root/x", &[404]),
        ("a\0b", &[400]),
        (&"x/".repeat(3000), &[400]),
    ] {
        let refused = controller.post("/files/export", json!({"desktopId": id, "path": path})).await;
        assert!(statuses.contains(&refused.status), "{path:.40}: {} {}", refused.status, refused.body);
        assert!(refused.body["error"].is_string());
    }
    for body in
        [json!({}), json!({"desktopId": id}), json!({"path": "x"}), json!({"desktopId": 1, "path": "x"})]
    {
        assert_eq!(controller.post("/files/export", body.clone()).await.status, 400, "{body}");
    }
    controller.act(id, "stop", json!({})).await;
    controller.until_status(id, "stopped").await;
    let stopped = controller.post("/files/export", json!({"desktopId": id, "path": "empty"})).await;
    let text = json!("Computer is not running (status: stopped)");
    assert_eq!((stopped.status, &stopped.body["error"]), (400, &text), "{}", stopped.body);
    controller.act(id, "start", json!({})).await;
    let blobs = controller.blobs("files").len();
    assert_eq!(blobs, 7, "a refused export leaves no blob");

    for (query, count) in [
        (format!("projectId={workspace}"), 7),
        (format!("workspace_id={workspace}&desktopId={id}"), 7),
        (format!("workspaceId={workspace}&computer_id={instance}"), 7),
        (format!("project_id={other}"), 0),
    ] {
        let listed = controller.get(&format!("/files?{query}")).await;
        assert_eq!(listed.body["files"].as_array().map(Vec::len), Some(count), "{query}: {}", listed.body);
    }
    let listed = controller.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(listed["files"][6], uploaded, "newest first");
    for (query, status) in [
        (String::new(), 400),
        (format!("projectId={}", uuid::Uuid::new_v4()), 404),
        ("projectId=x".to_owned(), 404),
    ] {
        assert_eq!(controller.get(&format!("/files?{query}")).await.status, status, "{query}");
    }

    let file = uploaded["id"].as_str().unwrap();
    let link =
        controller.get(&format!("/files/download?id={file}")).await.body["url"].as_str().unwrap().to_owned();
    let answer = crate::harness::client().get(&link).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain");
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename*=UTF-8''up%20%C3%A9.txt");
    assert_eq!(answer.headers()["content-security-policy"], "sandbox; default-src 'none'");
    assert_eq!(answer.bytes().await.unwrap(), "content");
    assert_eq!(fetch(&link.replace("signature=", "signature=00")).await.0, 403);
    for (method, path) in [(Method::GET, "/files/download"), (Method::DELETE, "/files/delete")] {
        for (query, status) in [("", 400), ("?id=", 404), ("?id=x", 404), ("?id=../x", 404)] {
            let refused = fetch_json(controller.request(method.clone(), &format!("{path}{query}"))).await;
            assert_eq!(refused.status, status, "{path}{query}: {}", refused.body);
        }
        let unknown = format!("{path}?id={}", uuid::Uuid::new_v4());
        assert_eq!(fetch_json(controller.request(method.clone(), &unknown)).await.status, 404);
        let keyless = fetch_json(controller.bare(method, &format!("/api{path}?id={file}"))).await;
        assert_eq!(keyless.status, 401);
    }
    assert_eq!(controller.delete(&format!("/files/delete?id={file}")).await.body, json!({"success": true}));
    assert_eq!(controller.delete(&format!("/files/delete?id={file}")).await.status, 404);
    assert_eq!(fetch(&link).await.0, 404);
    assert_eq!(controller.blobs("files").len(), 6);
    assert_eq!(controller.bash(id, "cat 'Desktop/up é.txt'").await, "content", "the computer's copy stays");

    // Exported files outlive their computer; files addressed to that computer alone do not.
    let parts: [Part<'_>; 3] = [
        ("projectId", None, workspace.as_bytes()),
        ("desktopId", None, id.as_bytes()),
        ("file", Some(b"for it alone"), b"x"),
    ];
    assert_eq!(send(&controller, &parts).await.status, 200);
    assert_eq!(controller.blobs("files").len(), 7);
    controller.delete(&format!("/computers/{id}")).await;
    assert_eq!(controller.blobs("files").len(), 6);
    let later = controller.computer(&workspace, "later").await;
    assert_eq!(controller.bash(later["id"].as_str().unwrap(), "ls -A Desktop 2>/dev/null; true").await, "");
    let left = controller.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(left["files"].as_array().unwrap().len(), 6);
    controller.delete(&format!("/workspaces/{workspace}")).await;
    assert_eq!(controller.blobs("files"), [""; 0], "the delete of a workspace deletes its files");
}
