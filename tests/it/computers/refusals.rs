//! Which creates are refused, and do they leave nothing behind? (interface.md "Computer" and "Errors", wire.md 4.2)

use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::answered;
use crate::harness::controller::{RunningController, no_computers_here};

/// Asserts that there is no row and no machine.
async fn nothing_is_left(house: &RunningController, after: &str) {
    assert_eq!(house.get("/computers").await.body["total"], 0, "a row after {after}");
    assert_eq!(house.machines(), [""; 0], "a machine after {after}");
}

#[tokio::test]
async fn a_refused_create_leaves_nothing_behind() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let unknown = uuid::Uuid::new_v4().to_string();
    let with = |field: &str, value: Value| {
        let mut order = json!({"workspace_id": workspace, "name": "one"});
        order[field] = value;
        order
    };
    let mut cases = vec![
        (json!({"name": "one"}), 400),
        (json!({"workspace_id": workspace}), 400),
        (with("workspace_id", json!(unknown)), 404),
        (with("workspace_id", json!("nope")), 404),
        (with("workspace_id", json!("../..")), 404),
        (with("workspace_id", json!("")), 404),
        (with("workspace_id", json!(1)), 400),
        (with("name", json!("")), 400),
        (with("name", json!("  \t ")), 400),
        (with("name", json!("a".repeat(256))), 400),
        (with("name", json!("語".repeat(256))), 400),
        (with("name", json!("a\0b")), 400),
        (with("name", json!("a\nb")), 400),
        (with("name", json!(7)), 400),
        (with("name", json!(null)), 400),
        (with("template_ref", json!("system/none@1.0.0")), 404),
        (with("template_ref", json!("../../x")), 400),
        (with("image", json!("registry.example/app:latest")), 400),
        (with("disk_size_gb", json!(301)), 403),
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
        cases.push((with(field, bad), 400));
    }
    for (order, status) in cases {
        let refused = house.post("/computers", order.clone()).await;
        assert_eq!(refused.status, status, "{order}: {}", refused.body);
        assert!(
            refused.body["error"].is_string() && refused.body["request_id"].is_string(),
            "{}",
            refused.body
        );
    }
    let disk = house.post("/computers", with("disk_size_gb", json!(301))).await;
    assert_eq!((&disk.body["code"], &disk.body["max_disk_gb"]), (&json!("DISK_QUOTA_EXCEEDED"), &json!(300)));
    nothing_is_left(&house, "orders out of range").await;

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
    for (body, status, what) in bodies {
        let refused = answered(house.request(Method::POST, "/computers").body(body)).await;
        assert_eq!(refused.status, status, "{what}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{what}");
    }
    nothing_is_left(&house, "bodies that are no order").await;
    let keyless = answered(house.bare(Method::POST, "/api/computers").json(&with("cpu", json!(1)))).await;
    assert_eq!(keyless.status, 401);
    // None of the refused took the name.
    house.computer(&workspace, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_and_a_full_account_are_refused() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_with("[limits]\nmax_computers = 2\n").await;
    let (here, there) = (house.workspace("here").await, house.workspace("there").await);
    let first = house.computer(&here, "Desk").await;
    for name in ["Desk", " desk ", "DESK"] {
        let taken = house.post("/computers", json!({"workspace_id": here, "name": name})).await;
        assert_eq!((taken.status, &taken.body["code"]), (409, &json!("NAME_TAKEN")), "{}", taken.body);
    }
    // The same name in another workspace is another computer.
    house.computer(&there, "desk").await;
    let full = house.post("/computers", json!({"workspace_id": there, "name": "third"})).await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("DESKTOP_LIMIT")));
    assert_eq!(full.body["max_computers"], 2);
    assert_eq!(house.machines().len(), 2);
    // A stopped one counts still; a removed one does not.
    let id = first["id"].as_str().unwrap();
    house.act(id, "stop", json!({})).await;
    house.until_status(id, "stopped").await;
    let still = house.post("/computers", json!({"workspace_id": here, "name": "third"})).await;
    assert_eq!(still.status, 403);
    house.delete(&format!("/computers/{id}")).await;
    house.computer(&here, "desk").await;
}

#[tokio::test]
async fn a_create_that_fails_leaves_nothing_behind() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    // A runtime that can do all but make containers.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = folder.path().join("runtime");
    std::fs::write(&runtime, "#!/bin/sh\ncase \"$*\" in *' create '*) exit 9;; esac\nexec runc \"$@\"\n")
        .unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o755)).unwrap();
    let configuration = format!("[container]\nruntime = {:?}\n", runtime.to_str().unwrap());
    let house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    for _ in 0..2 {
        let failed = house.post("/computers", json!({"workspace_id": workspace, "name": "one"})).await;
        assert_eq!(failed.status, 500, "{}", failed.body);
        assert_eq!(failed.body["error"], "Computer could not be started", "and nothing of the inside");
        nothing_is_left(&house, "a create that failed").await;
    }
}
