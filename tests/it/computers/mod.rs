//! Computers: creation, reading, listing, renaming and removal (docs/api/computers.md).

mod copied;
mod egress;
mod limits;
mod races;
mod refusals;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, skip_reason};

/// Every field that clients read from a running computer (docs/api/computers.md).
const FIELDS: [&str; 30] = [
    "api_port",
    "auto_stop_minutes",
    "connection_url",
    "cpu",
    "created_at",
    "disk_size_gb",
    "fly_instance_id",
    "gpu",
    "hostname",
    "id",
    "instance_details",
    "instance_id",
    "ip",
    "isolation",
    "name",
    "novnc_port",
    "os",
    "project_id",
    "project_name",
    "ram",
    "resolution",
    "ssh_host_port",
    "status",
    "template_build_id",
    "template_ports",
    "template_ref",
    "updated_at",
    "url",
    "user_id",
    "workspace_id",
];

fn fields(record: &Value) -> Vec<&str> {
    record.as_object().expect("a record").keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_made_with_the_defaults_and_shown_under_every_name() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let mut created = controller.computer(&workspace, "  first  ").await;
    let auto_stop = created.as_object_mut().expect("a record").remove("auto_stop").expect("what is in force");
    // The runtime of these computers, runc, saves no memory.
    assert_eq!((&auto_stop["minutes"], &auto_stop["keeps_memory"]), (&json!(0), &json!(false)));
    let mut with_password: Vec<&str> = FIELDS.to_vec();
    with_password.push("vnc_password");
    with_password.sort_unstable();
    let mut shown = fields(&created);
    shown.sort_unstable();
    assert_eq!(shown, with_password);
    for (field, value) in [
        ("name", json!("first")),
        ("workspace_id", json!(workspace)),
        ("project_id", json!(workspace)),
        ("project_name", json!("demo")),
        ("os", json!("linux")),
        ("cpu", json!(1)),
        ("ram", json!(4)),
        ("disk_size_gb", json!(8)),
        ("gpu", json!("none")),
        ("resolution", json!("1280x720x24")),
        ("status", json!("running")),
        ("auto_stop_minutes", json!(0)),
        ("fly_instance_id", created["instance_id"].clone()),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    let (id, instance) = (created["id"].as_str().unwrap(), created["instance_id"].as_str().unwrap());
    assert!(uuid::Uuid::parse_str(id).is_ok() && instance.len() == 8, "{id} {instance}");
    let host = controller.base().trim_start_matches("http://");
    assert_eq!(created["hostname"], host);
    assert_eq!(created["connection_url"], format!("http://{host}/desktops/{instance}"));
    assert_eq!(created["instance_details"]["id"], instance);
    assert_eq!(created["instance_details"]["resolution"], "1280x720x24");
    assert!(created["ip"].as_str().unwrap().parse::<std::net::IpAddr>().is_ok());
    for time in ["created_at", "updated_at"] {
        assert!(
            created[time].as_str().unwrap().ends_with('Z') && created[time].as_str().unwrap().contains('T')
        );
    }
    let password = created["vnc_password"].as_str().unwrap();
    assert!(password.len() >= 12 && password.bytes().all(|byte| byte.is_ascii_alphanumeric()));

    // The same record by either handle; the password only by its own endpoint and in no listing.
    for handle in [id, instance, &id.to_uppercase()] {
        assert_eq!(controller.record(handle).await, created, "{handle}");
        let answer = controller.get(&format!("/computers/{handle}/vnc-password")).await;
        assert_eq!((answer.status, answer.body), (200, json!({ "password": password })));
    }
    let mut listed = created.clone();
    listed.as_object_mut().unwrap().remove("vnc_password");
    let lists = [
        ("/computers", "/computers/0"),
        ("/computers", "/desktops/0"),
        ("/workspaces", "/workspaces/0/desktops/0"),
        ("/projects", "/projects/0/desktops/0"),
        (&format!("/workspaces/{workspace}"), "/desktops/0"),
        ("/projects/by-name/demo", "/desktops/0"),
    ];
    for (path, pointer) in lists {
        let answer = controller.get(path).await.body;
        assert_eq!(answer.pointer(pointer), Some(&listed), "{path} {pointer}");
        assert!(!answer.to_string().contains(password), "{path} must not show the password");
    }

    for wrong in ["nope", "0a1b2c3d", &uuid::Uuid::new_v4().to_string(), "..", "%00", "a%20b"] {
        let missing = controller.get(&format!("/computers/{wrong}/vnc-password")).await;
        assert_eq!(missing.status, 404, "{wrong}: {}", missing.body);
    }
    let method =
        fetch_json(controller.request(Method::PUT, &format!("/computers/{id}")).json(&json!({}))).await;
    assert_eq!((method.status, &method.body["error"]), (405, &json!("Method not allowed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_create_is_used_and_a_rename_changes_the_name_alone() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let hostile = "../../etc/$(reboot); `x` 'y' \"z\" & 語 \u{1f5a5}";
    let order = json!({
        "project_id": workspace, "name": hostile, "os": "linux", "gpu": "none", "ram": 8, "cpu": 2,
        "disk_size_gb": 1, "resolution": "800x600x24", "auto_stop_minutes": 43_200,
        "image": "system/desktop@1.0.0", "bops_free": true, "unknown": {"deep": [1]},
    });
    let created = controller.post("/computers", order).await;
    assert_eq!(created.status, 201, "{}", created.body);
    for (field, value) in [
        ("name", json!(hostile)),
        ("ram", json!(8)),
        ("cpu", json!(2)),
        ("disk_size_gb", json!(1)),
        ("resolution", json!("800x600x24")),
        ("auto_stop_minutes", json!(43_200)),
    ] {
        assert_eq!(created.body[field], value, "{field}");
    }
    let id = created.body["id"].as_str().unwrap();
    let megabytes: u64 =
        controller.bash(id, "df -BM --output=size / | tail -n1 | tr -dc 0-9").await.parse().unwrap();
    assert!((800..=1024).contains(&megabytes), "a disk of 1 GB shows {megabytes} MB");

    let longest = "語".repeat(255);
    let path = format!("/computers/{id}");
    let renamed = controller.patch(&path, json!({ "name": format!(" {longest} ") })).await;
    assert_eq!((renamed.status, &renamed.body["name"]), (200, &json!(longest)));
    let mut unchanged = created.body.clone();
    unchanged.as_object_mut().expect("a record").remove("auto_stop");
    unchanged["name"] = json!(longest);
    unchanged["updated_at"] = renamed.body["updated_at"].clone();
    assert_eq!(renamed.body, unchanged);
    // By the instance handle, and a change of case, which does not collide with the computer itself.
    let by_instance = format!("/computers/{}", created.body["instance_id"].as_str().unwrap());
    assert_eq!(controller.patch(&by_instance, json!({"name": "Work"})).await.status, 200);
    assert_eq!(controller.patch(&path, json!({"name": "work"})).await.body["name"], "work");
    // A body without fields changes nothing.
    let unchanged = controller.patch(&path, json!({})).await;
    assert_eq!((unchanged.status, &unchanged.body["name"]), (200, &json!("work")), "{}", unchanged.body);
    for bad in [
        json!({"name": ""}),
        json!({"name": " "}),
        json!({"name": "a".repeat(256)}),
        json!({"name": 1}),
        json!({"name": "a\nb"}),
    ] {
        let refused = controller.patch(&path, bad.clone()).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
    let second = controller.computer(&workspace, hostile).await;
    let conflict = controller
        .patch(&format!("/computers/{}", second["id"].as_str().unwrap()), json!({"name": "WORK"}))
        .await;
    assert_eq!((conflict.status, &conflict.body["code"]), (409, &json!("NAME_TAKEN")));
    assert_eq!(controller.record(id).await["name"], "work");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let (one, two) = (controller.workspace("one").await, controller.workspace("two").await);
    let mut ids = Vec::new();
    for (workspace, name) in [(&one, "alpha 100%"), (&one, "beta_x"), (&two, "alpha 1000")] {
        ids.push(controller.computer(workspace, name).await["id"].as_str().unwrap().to_owned());
    }
    controller.act(&ids[1], "stop", json!({})).await;
    controller.until_status(&ids[1], "stopped").await;
    let queries: [(&str, &[usize]); 15] = [
        ("", &[0, 1, 2]),
        (&format!("?workspace_id={one}"), &[0, 1]),
        (&format!("?project_id={two}"), &[2]),
        ("?status=running", &[0, 2]),
        ("?status=stopped", &[1]),
        ("?status=error", &[]),
        ("?name=ALPHA", &[0, 2]),
        ("?name=100%25", &[0]),
        ("?name=a_x", &[1]),
        ("?name=_", &[1]),
        ("?limit=2", &[0, 1]),
        ("?limit=2&offset=2", &[2]),
        ("?offset=3", &[]),
        ("?offset=4294967295", &[]),
        (&format!("?unknown=1&name=alpha&status=running&limit=1&offset=0&workspace_id={one}"), &[0]),
    ];
    for (query, expected) in queries {
        let listed = controller.get(&format!("/computers{query}")).await;
        assert_eq!(listed.status, 200, "{query}: {}", listed.body);
        let shown: Vec<&str> = listed.body["computers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        let expected: Vec<&str> = expected.iter().map(|index| ids[*index].as_str()).collect();
        assert_eq!(shown, expected, "{query}");
        assert_eq!(listed.body["computers"], listed.body["desktops"], "{query}");
    }
    let page = controller.get("/computers?limit=2").await.body;
    assert_eq!((&page["total"], &page["next_offset"]), (&json!(3), &json!(2)));
    let last = controller.get("/computers?limit=2&offset=2").await.body;
    assert_eq!((&last["total"], &last["next_offset"]), (&json!(3), &json!(null)));
    for bad in [
        "?limit=0",
        "?limit=1001",
        "?limit=-1",
        "?limit=x",
        "?offset=-1",
        "?offset=4294967296",
        "?status=frozen",
        "?status=",
    ] {
        let refused = controller.get(&format!("/computers{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
    let unknown = controller.get(&format!("/computers?workspace_id={}", uuid::Uuid::new_v4())).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_computer_is_gone_everywhere() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let first = controller.computer(&workspace, "first").await;
    let (id, instance) = (first["id"].as_str().unwrap(), first["instance_id"].as_str().unwrap());
    let init = controller.init_pid(id);
    let removed = controller.delete(&format!("/computers/{instance}")).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert!(!crate::harness::agent::alive(&init.to_string()), "its process 1 must end");
    assert_eq!(controller.machines(), [""; 0]);
    for handle in [id, instance] {
        let path = format!("/computers/{handle}");
        let gone = controller.get(&path).await;
        assert_eq!((gone.status, &gone.body["error"]), (404, &json!("Desktop not found")));
        assert_eq!(controller.delete(&path).await.status, 404);
        assert_eq!(controller.act(handle, "bash", json!({"command": "true"})).await.status, 404);
        assert_eq!(controller.act(handle, "start", json!({})).await.status, 404);
    }
    assert_eq!(controller.get("/computers").await.body["total"], 0);

    // The name is free again. Removing the workspace removes its computers, running or not.
    let recreated = controller.computer(&workspace, "first").await;
    let stopped = controller.computer(&workspace, "second").await;
    controller.act(stopped["id"].as_str().unwrap(), "stop", json!({})).await;
    controller.until_status(stopped["id"].as_str().unwrap(), "stopped").await;
    assert_eq!(controller.machines().len(), 2);
    let removed = controller.delete(&format!("/workspaces/{workspace}")).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert_eq!(controller.machines(), [""; 0]);
    for record in [recreated, stopped] {
        assert_eq!(
            controller.get(&format!("/computers/{}", record["id"].as_str().unwrap())).await.status,
            404
        );
    }
}
