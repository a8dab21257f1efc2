//! Refused uploads, and file names that must not leave the desktop folder: T7, T14 (docs/security.md).

use reqwest::Method;
use serde_json::json;

use super::{BOUNDARY, Part, outcomes, send, upload};
use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;

/// Largest upload: 10 MiB.
const LIMIT: usize = 10 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn only_plain_names_reach_the_desktop() {
    let Some((controller, workspace, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    controller.bash(id, "mkdir -p Desktop; rm -rf Desktop/* Desktop/.[!.]*").await;
    let longest = "语".repeat(85);
    let odd = ["-rf", "a b;$(reboot)`x`.txt", "CON", "a:b|c?.txt", ".hidden", "*", "%2e%2e", &longest];
    for name in odd {
        assert_eq!(outcomes(&upload(&controller, &workspace, name, b"x").await)[0].1, "created", "{name}");
    }
    let too_long = format!("{longest}x");
    let bad: [&[u8]; 14] = [
        b"",
        b".",
        b"..",
        b"../x",
        b"../../etc/cron.d/x",
        b"/etc/passwd",
        b"a/b",
        b"a\\b",
        b"a\0b",
        b"a\x01b",
        b" x",
        "a\u{202e}txt.exe".as_bytes(),
        b"a\xff\xfeb",
        too_long.as_bytes(),
    ];
    for name in bad {
        let parts: [Part<'_>; 2] = [("projectId", None, workspace.as_bytes()), ("file", Some(name), b"x")];
        let refused = send(&controller, &parts).await;
        assert_eq!(refused.status, 400, "{:?}: {}", String::from_utf8_lossy(name), refused.body);
        assert!(refused.body["error"].is_string());
    }
    assert_eq!(controller.blobs("files").len(), odd.len(), "a refused upload leaves no blob");
    let mut found: Vec<String> =
        controller.bash(id, "ls -A Desktop").await.lines().map(str::to_owned).collect();
    found.sort();
    let mut expected = odd.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    let records = controller.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(records["files"].as_array().unwrap().len(), odd.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_are_too_large_or_no_forms_are_refused() {
    let Some((controller, workspace, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let whole = vec![b'x'; LIMIT];
    assert_eq!(
        outcomes(&upload(&controller, &workspace, "whole", &whole).await),
        [(id.to_owned(), "created".to_owned())]
    );
    assert_eq!(controller.bash(id, "stat -c %s Desktop/whole").await, format!("{LIMIT}\n"));
    for size in [LIMIT + 1, LIMIT + 1024 * 1024] {
        let large = upload(&controller, &workspace, "large", &vec![b'x'; size]).await;
        assert_eq!((large.status, large.body["error"].is_string()), (413, true), "{size}: {}", large.body);
    }
    let own_workspace = workspace.as_bytes();
    let elsewhere = controller.workspace("elsewhere").await;
    let unknown = uuid::Uuid::new_v4().to_string();
    let cases: [(&[Part<'_>], u16, &str); 11] = [
        (&[("file", Some(b"x"), b"x")], 400, "no workspace"),
        (&[("projectId", None, own_workspace)], 400, "no file"),
        (&[("projectId", None, own_workspace), ("file", None, b"x")], 400, "a file without a name"),
        (&[("projectId", None, b""), ("file", Some(b"x"), b"x")], 400, "an empty workspace"),
        (&[("projectId", None, b"\xff"), ("file", Some(b"x"), b"x")], 400, "a workspace of invalid UTF-8"),
        (&[("projectId", None, &[b'x'; 1000]), ("file", Some(b"x"), b"x")], 400, "a long workspace"),
        (&[("projectId", None, b"x"), ("file", Some(b"x"), b"x")], 404, "not a workspace id"),
        (&[("projectId", None, unknown.as_bytes()), ("file", Some(b"x"), b"x")], 404, "an unknown workspace"),
        (
            &[("projectId", None, own_workspace), ("desktopId", None, b"x"), ("file", Some(b"x"), b"x")],
            404,
            "unknown computer",
        ),
        (
            &[
                ("projectId", None, elsewhere.as_bytes()),
                ("desktopId", None, id.as_bytes()),
                ("file", Some(b"x"), b"x"),
            ],
            400,
            "a computer of another workspace",
        ),
        (&[], 400, "no parts"),
    ];
    for (parts, status, what) in cases {
        let refused = send(&controller, parts).await;
        assert_eq!(refused.status, status, "{what}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{what}");
    }
    let multipart = format!("multipart/form-data; boundary={BOUNDARY}");
    for (content_type, body, what) in [
        ("application/json", "{}", "JSON"),
        ("multipart/form-data", "x", "no boundary"),
        (multipart.as_str(), "", "an empty body"),
        (multipart.as_str(), "--a-boundary-of-the-tests\r\nContent-Disp", "a truncated form"),
    ] {
        let request =
            controller.request(Method::POST, "/files/upload").header("content-type", content_type).body(body);
        let refused = fetch_json(request).await;
        assert_eq!(refused.status, 400, "{what}: {}", refused.body);
    }
    // A client that continues to send after the refusal still reads the response.
    let bare = controller.bare(Method::POST, "/api/files/upload").header("content-type", &multipart);
    let bare = bare.body(vec![b'x'; 2 * LIMIT]);
    assert_eq!(fetch_json(bare).await.status, 401);
    assert_eq!(controller.blobs("files").len(), 1, "refused uploads leave no blobs");
    let listed = controller.get(&format!("/files?projectId={workspace}")).await.body;
    assert_eq!(listed["files"].as_array().unwrap().len(), 1, "{}", json!(listed));
}
