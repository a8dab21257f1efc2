//! Refused creates, which leave no trace (docs/api/computers.md, docs/api/errors.md).

use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, skip_reason};

/// Asserts that there is no row and no machine.
async fn nothing_is_left(controller: &RunningController, after: &str) {
    assert_eq!(controller.get("/computers").await.body["total"], 0, "a row after {after}");
    assert_eq!(controller.machines(), [""; 0], "a machine after {after}");
}

#[tokio::test]
async fn a_refused_create_leaves_nothing_behind() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let unknown = uuid::Uuid::new_v4().to_string();
    let create_body = |field: &str, value: Value| {
        let mut body = json!({"workspace_id": workspace, "name": "one"});
        body[field] = value;
        body
    };
    let mut cases = vec![
        (json!({"name": "one"}), 400),
        (json!({"workspace_id": workspace}), 400),
        (create_body("workspace_id", json!(unknown)), 404),
        (create_body("workspace_id", json!("nope")), 404),
        (create_body("workspace_id", json!("../..")), 404),
        (create_body("workspace_id", json!("")), 404),
        (create_body("workspace_id", json!(1)), 400),
        (create_body("name", json!("")), 400),
        (create_body("name", json!("  \t ")), 400),
        (create_body("name", json!("a".repeat(256))), 400),
        (create_body("name", json!("語".repeat(256))), 400),
        (create_body("name", json!("a\0b")), 400),
        (create_body("name", json!("a\nb")), 400),
        (create_body("name", json!(7)), 400),
        (create_body("name", json!(null)), 400),
        (create_body("template_ref", json!("system/none@1.0.0")), 404),
        (create_body("template_ref", json!("../../x")), 400),
        (create_body("image", json!("system/none@1.0.0")), 404),
        (create_body("disk_size_gb", json!(301)), 403),
    ];
    for (field, bad) in [
        ("os", json!("windows")),
        ("os", json!("")),
        ("os", json!(1)),
        ("gpu", json!("a10")),
        ("cpu", json!(0)),
        ("cpu", json!(3)),
        ("cpu", json!(-1)),
        ("cpu", json!(1e300)),
        ("cpu", json!("2")),
        ("ram", json!(2)),
        ("ram", json!(4.5)),
        ("ram", json!(65)),
        ("disk_size_gb", json!(0)),
        ("disk_size_gb", json!(-8)),
        ("disk_size_gb", json!(8.5)),
        ("resolution", json!("1280")),
        ("resolution", json!("0x0x24")),
        ("resolution", json!("99999x99999x24")),
        ("resolution", json!("1280x720x25")),
        ("resolution", json!(1280)),
        ("auto_stop_minutes", json!(-1)),
        ("auto_stop_minutes", json!(43_201)),
        ("auto_stop_minutes", json!(1.5)),
    ] {
        cases.push((create_body(field, bad), 400));
    }
    for (body, status) in cases {
        let refused = controller.post("/computers", body.clone()).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        assert!(
            refused.body["error"].is_string() && refused.body["request_id"].is_string(),
            "{}",
            refused.body
        );
    }
    let disk = controller.post("/computers", create_body("disk_size_gb", json!(301))).await;
    assert_eq!((&disk.body["code"], &disk.body["max_disk_gb"]), (&json!("DISK_QUOTA_EXCEEDED"), &json!(300)));
    nothing_is_left(&controller, "orders out of range").await;

    let deep = format!("{{\"workspace_id\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes();
    let huge = format!("{{\"name\":\"{}\"}}", "x".repeat(3 * 1024 * 1024)).into_bytes();
    let bodies: [(Vec<u8>, u16, &str); 9] = [
        (Vec::new(), 400, "none"),
        (b"  \n".to_vec(), 400, "white space"),
        (b"{".to_vec(), 400, "broken"),
        (b"[]".to_vec(), 400, "array"),
        (b"null".to_vec(), 400, "null"),
        (b"{\"name\":\"\xff\xfe\"}".to_vec(), 400, "invalid UTF-8"),
        (b"\xef\xbb\xbf{}".to_vec(), 400, "a byte order mark"),
        (deep, 400, "deep"),
        (huge, 413, "huge"),
    ];
    for (body, status, case) in bodies {
        let refused = fetch_json(controller.request(Method::POST, "/computers").body(body)).await;
        assert_eq!(refused.status, status, "{case}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{case}");
    }
    nothing_is_left(&controller, "bodies that are no order").await;
    let keyless =
        fetch_json(controller.bare(Method::POST, "/api/computers").json(&create_body("cpu", json!(1)))).await;
    assert_eq!(keyless.status, 401);
    // No refused create has reserved the name.
    // An image that is no template reference is ignored.
    let body = create_body("image", json!("registry.example/app:latest"));
    assert_eq!(controller.post("/computers", body).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_and_a_full_account_are_refused() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_with("[limits]\nmax_computers = 2\n").await;
    let (here, there) = (controller.workspace("here").await, controller.workspace("there").await);
    let first = controller.computer(&here, "Desk").await;
    for name in ["Desk", " desk ", "DESK"] {
        let taken = controller.post("/computers", json!({"workspace_id": here, "name": name})).await;
        assert_eq!((taken.status, &taken.body["code"]), (409, &json!("NAME_TAKEN")), "{}", taken.body);
    }
    // The same name is free in another workspace.
    controller.computer(&there, "desk").await;
    let full = controller.post("/computers", json!({"workspace_id": there, "name": "third"})).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("DESKTOP_LIMIT")));
    assert_eq!(full.body["max_computers"], 2);
    assert_eq!(controller.machines().len(), 2);
    // A stopped computer still counts; a removed one does not.
    let id = first["id"].as_str().unwrap();
    controller.act(id, "stop", json!({})).await;
    controller.until_status(id, "stopped").await;
    let still = controller.post("/computers", json!({"workspace_id": here, "name": "third"})).await;
    assert_eq!(still.status, 403);
    controller.delete(&format!("/computers/{id}")).await;
    controller.computer(&here, "desk").await;
}

#[tokio::test]
async fn a_create_that_fails_leaves_nothing_behind() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    // A runtime that can do everything except create containers.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = folder.path().join("runtime");
    std::fs::write(&runtime, "#!/bin/sh\ncase \"$*\" in *' create '*) exit 9;; esac\nexec runc \"$@\"\n")
        .unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o755)).unwrap();
    let configuration = format!("[engines]\noffered = \"shared\"\nrunc = {:?}\n", runtime.to_str().unwrap());
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    for _ in 0..2 {
        let failed = controller.post("/computers", json!({"workspace_id": workspace, "name": "one"})).await;
        assert_eq!(failed.status, 500, "{}", failed.body);
        assert_eq!(
            failed.body["error"], "Computer could not be started",
            "the error must not contain internal details"
        );
        nothing_is_left(&controller, "a create that failed").await;
    }
}
