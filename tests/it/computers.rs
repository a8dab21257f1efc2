//! Can computers be made, read, listed, renamed and removed as interface.md "Computer" and wire.md 4 say?

mod copied;
mod limits;
mod races;
mod refusals;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::answered;
use crate::harness::controller::{RunningController, no_computers_here};

/// Every field of wire.md 4.1 that clients read from a running computer.
const FIELDS: [&str; 26] = [
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
    "name",
    "novnc_port",
    "os",
    "project_id",
    "project_name",
    "ram",
    "resolution",
    "ssh_host_port",
    "status",
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
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let made = house.computer(&workspace, "  first  ").await;
    let mut with_password: Vec<&str> = FIELDS.to_vec();
    with_password.push("vnc_password");
    with_password.sort_unstable();
    let mut shown = fields(&made);
    shown.sort_unstable();
    assert_eq!(shown, with_password);
    for (field, value) in [
        ("name", json!("first")),
        ("workspace_id", json!(workspace)),
        ("project_id", json!(workspace)),
        ("project_name", json!("demo")),
        ("os", json!("linux")),
        ("cpu", json!(1.0)),
        ("ram", json!(4)),
        ("disk_size_gb", json!(8)),
        ("gpu", json!("none")),
        ("resolution", json!("1280x720x24")),
        ("status", json!("running")),
        ("auto_stop_minutes", json!(0)),
        ("fly_instance_id", made["instance_id"].clone()),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let (id, instance) = (made["id"].as_str().unwrap(), made["instance_id"].as_str().unwrap());
    assert!(uuid::Uuid::parse_str(id).is_ok() && instance.len() == 8, "{id} {instance}");
    let host = house.base().trim_start_matches("http://");
    assert_eq!(made["hostname"], host);
    assert_eq!(made["connection_url"], format!("http://{host}/desktops/{instance}"));
    assert_eq!(made["instance_details"]["id"], instance);
    assert_eq!(made["instance_details"]["resolution"], "1280x720x24");
    assert!(made["ip"].as_str().unwrap().parse::<std::net::IpAddr>().is_ok());
    for time in ["created_at", "updated_at"] {
        assert!(made[time].as_str().unwrap().ends_with('Z') && made[time].as_str().unwrap().contains('T'));
    }
    let password = made["vnc_password"].as_str().unwrap();
    assert!(password.len() >= 12 && password.bytes().all(|byte| byte.is_ascii_alphanumeric()));

    // The same record by either handle, the password by its own endpoint, and in no listing.
    for handle in [id, instance, &id.to_uppercase()] {
        assert_eq!(house.record(handle).await, made, "{handle}");
        let asked = house.get(&format!("/computers/{handle}/vnc-password")).await;
        assert_eq!((asked.status, asked.body), (200, json!({ "password": password })));
    }
    let mut listed = made.clone();
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
        let answer = house.get(path).await.body;
        assert_eq!(answer.pointer(pointer), Some(&listed), "{path} {pointer}");
        assert!(!answer.to_string().contains(password), "{path} shows the password");
    }

    for wrong in ["nope", "0a1b2c3d", &uuid::Uuid::new_v4().to_string(), "..", "%00", "a%20b"] {
        let missing = house.get(&format!("/computers/{wrong}/vnc-password")).await;
        assert_eq!(missing.status, 404, "{wrong}: {}", missing.body);
    }
    let method = answered(house.request(Method::PUT, &format!("/computers/{id}")).json(&json!({}))).await;
    assert_eq!((method.status, &method.body["error"]), (405, &json!("Method not allowed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_create_is_used_and_a_rename_changes_the_name_alone() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let hostile = "../../etc/$(reboot); `x` 'y' \"z\" & 語 \u{1f5a5}";
    let order = json!({
        "project_id": workspace, "name": hostile, "os": "linux", "gpu": "none", "ram": 8, "cpu": 2,
        "disk_size_gb": 1, "resolution": "800x600x24", "auto_stop_minutes": 43_200,
        "image": "system/desktop@1.0.0", "bops_free": true, "unknown": {"deep": [1]},
    });
    let made = house.post("/computers", order).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for (field, value) in [
        ("name", json!(hostile)),
        ("ram", json!(8)),
        ("cpu", json!(2.0)),
        ("disk_size_gb", json!(1)),
        ("resolution", json!("800x600x24")),
        ("auto_stop_minutes", json!(43_200)),
    ] {
        assert_eq!(made.body[field], value, "{field}");
    }
    let id = made.body["id"].as_str().unwrap();
    let megabytes: u64 =
        house.bash(id, "df -BM --output=size / | tail -n1 | tr -dc 0-9").await.parse().unwrap();
    assert!((800..=1024).contains(&megabytes), "a disk of 1 GB shows {megabytes} MB");

    let longest = "語".repeat(255);
    let path = format!("/computers/{id}");
    let renamed = house.patch(&path, json!({ "name": format!(" {longest} ") })).await;
    assert_eq!((renamed.status, &renamed.body["name"]), (200, &json!(longest)));
    let mut unchanged = renamed.body.clone();
    unchanged["name"] = json!(hostile);
    unchanged["updated_at"] = made.body["updated_at"].clone();
    assert_eq!(unchanged, made.body);
    // By the instance handle, and in another case, which is no collision with itself.
    let by_instance = format!("/computers/{}", made.body["instance_id"].as_str().unwrap());
    assert_eq!(house.patch(&by_instance, json!({"name": "Work"})).await.status, 200);
    assert_eq!(house.patch(&path, json!({"name": "work"})).await.body["name"], "work");
    for bad in [
        json!({}),
        json!({"name": ""}),
        json!({"name": " "}),
        json!({"name": "a".repeat(256)}),
        json!({"name": 1}),
        json!({"name": "a\nb"}),
    ] {
        let refused = house.patch(&path, bad.clone()).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
    let second = house.computer(&workspace, hostile).await;
    let taken =
        house.patch(&format!("/computers/{}", second["id"].as_str().unwrap()), json!({"name": "WORK"})).await;
    assert_eq!((taken.status, &taken.body["code"]), (409, &json!("NAME_TAKEN")));
    assert_eq!(house.record(id).await["name"], "work");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let (one, two) = (house.workspace("one").await, house.workspace("two").await);
    let mut ids = Vec::new();
    for (workspace, name) in [(&one, "alpha 100%"), (&one, "beta_x"), (&two, "alpha 1000")] {
        ids.push(house.computer(workspace, name).await["id"].as_str().unwrap().to_owned());
    }
    house.act(&ids[1], "stop", json!({})).await;
    house.until_status(&ids[1], "stopped").await;
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
        let listed = house.get(&format!("/computers{query}")).await;
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
    let page = house.get("/computers?limit=2").await.body;
    assert_eq!((&page["total"], &page["next_offset"]), (&json!(3), &json!(2)));
    let last = house.get("/computers?limit=2&offset=2").await.body;
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
        let refused = house.get(&format!("/computers{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
    let unknown = house.get(&format!("/computers?workspace_id={}", uuid::Uuid::new_v4())).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_computer_is_gone_everywhere() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let first = house.computer(&workspace, "first").await;
    let (id, instance) = (first["id"].as_str().unwrap(), first["instance_id"].as_str().unwrap());
    let init = house.init_pid(id);
    let removed = house.delete(&format!("/computers/{instance}")).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert!(!crate::harness::agent::alive(&init.to_string()), "its process 1 lives");
    assert_eq!(house.machines(), [""; 0]);
    for handle in [id, instance] {
        let path = format!("/computers/{handle}");
        let gone = house.get(&path).await;
        assert_eq!((gone.status, &gone.body["error"]), (404, &json!("Desktop not found")));
        assert_eq!(house.delete(&path).await.status, 404);
        assert_eq!(house.act(handle, "bash", json!({"command": "true"})).await.status, 404);
        assert_eq!(house.act(handle, "start", json!({})).await.status, 404);
    }
    assert_eq!(house.get("/computers").await.body["total"], 0);

    // The name is free again; removing the workspace removes what is in it, running or not.
    let again = house.computer(&workspace, "first").await;
    let stopped = house.computer(&workspace, "second").await;
    house.act(stopped["id"].as_str().unwrap(), "stop", json!({})).await;
    house.until_status(stopped["id"].as_str().unwrap(), "stopped").await;
    assert_eq!(house.machines().len(), 2);
    let removed = house.delete(&format!("/workspaces/{workspace}")).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert_eq!(house.machines(), [""; 0]);
    for record in [again, stopped] {
        assert_eq!(house.get(&format!("/computers/{}", record["id"].as_str().unwrap())).await.status, 404);
    }
}
