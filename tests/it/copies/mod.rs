//! Clones and moves: completeness, isolation, billing and permissions.
//!
//! docs/lifecycle.md#clone; T18, T23 and T28 (docs/security.md).

mod identity;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::controller::config::{Config, Limits};
use hotdesk::controller::identity::auth::keys;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, Engine, EngineError, MachineSpec, Shortage};
use hotdesk::store::fleet::computers::Computer;
use hotdesk::store::fleet::copies::{Extent, NewCopy};
use hotdesk::store::identity::accounts::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// Creates a computer `desk` in a workspace `home`; returns the ids of both.
async fn create_computer(controller: &Simulation) -> (String, String) {
    let home = controller.workspace("home").await;
    let body = json!({"workspace_id": home, "name": "desk", "cpu": 2, "disk_size_gb": 10,
        "auto_stop_minutes": 15, "resolution": "800x600x24"});
    let computer = id_of(&controller.create("/computers", body).await);
    std::fs::create_dir(controller.disk(&computer).join("work")).expect("a folder");
    std::fs::write(controller.disk(&computer).join("work/note"), "kept").expect("a file");
    (home, computer)
}

async fn clone(controller: &Simulation, source: &str, body: Value) -> HttpAnswer {
    controller.post(&format!("/computers/{source}/clone"), body).await
}

async fn stored_computer(controller: &Simulation, id: &str) -> Computer {
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    controller.store().await.computer(&reference).await.expect("the store answers").expect("a row")
}

async fn move_computer(controller: &Simulation, id: &str, body: Value) -> HttpAnswer {
    controller.patch(&format!("/computers/{id}/move"), body).await
}

/// Names of all computers.
async fn names(controller: &Simulation) -> BTreeSet<String> {
    let listed = controller.get("/computers").await.body;
    let all = listed["computers"].as_array().expect("a list");
    assert_eq!(controller.machines().len(), all.len(), "each row must have one machine");
    all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_has_its_source_s_disk_and_an_identity_of_its_own() {
    let controller = Simulation::boot().await;
    let (home, computer) = create_computer(&controller).await;
    let source = controller.get(&format!("/computers/{computer}")).await.body;
    // Without a request body, and by the instance handle instead of the UUID.
    let instance = source["instance_id"].as_str().expect("a handle");
    let made = fetch_json(controller.request(Method::POST, &format!("/computers/{instance}/clone"))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let copy = made.body;
    assert_eq!((&copy["name"], &copy["status"]), (&json!("desk (clone)"), &json!("running")));
    assert_eq!((&copy["workspace_id"], &copy["auto_stop_minutes"]), (&json!(home), &json!(0)));
    for same in ["cpu", "ram", "disk_size_gb", "resolution"] {
        assert_eq!(copy[same], source[same], "{same}");
    }
    for own in ["id", "instance_id", "vnc_password"] {
        assert!(copy[own].is_string() && copy[own] != source[own], "{own}: {copy}");
    }
    let id = id_of(&copy);
    let (first, second) =
        (stored_computer(&controller, &computer).await, stored_computer(&controller, &id).await);
    assert_ne!(first.agent_token.reveal(), second.agent_token.reveal());
    assert_eq!(std::fs::read_to_string(controller.disk(&id).join("work/note")).expect("copied"), "kept");
    // The two diverge from here, and the clone's handle names the clone.
    std::fs::write(controller.disk(&id).join("work/note"), "changed").expect("a file");
    assert_eq!(
        std::fs::read_to_string(controller.disk(&computer).join("work/note")).expect("the source's file"),
        "kept"
    );
    assert_eq!(controller.status(&computer).await, "running");
    let clone_of_clone =
        clone(&controller, copy["instance_id"].as_str().expect("a handle"), json!({"name": " own "})).await;
    assert_eq!(
        (clone_of_clone.status, &clone_of_clone.body["name"]),
        (201, &json!("own")),
        "{}",
        clone_of_clone.body
    );
    assert_eq!(
        std::fs::read_to_string(controller.disk(&id_of(&clone_of_clone.body)).join("work/note"))
            .expect("copied"),
        "changed"
    );
    assert_eq!(controller.delete(&format!("/computers/{computer}")).await.status, 200);
    assert_eq!(controller.status(&id).await, "running", "a clone must outlive its source");
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_names_are_free_and_never_too_long() {
    let controller = Simulation::boot().await;
    let (home, computer) = create_computer(&controller).await;
    for expected in ["desk (clone)", "desk (clone 2)", "desk (clone 3)"] {
        let made = clone(&controller, &computer, json!({"name": null})).await;
        assert_eq!((made.status, &made.body["name"]), (201, &json!(expected)), "{}", made.body);
    }
    let long = controller.computer(&home, &"語".repeat(255)).await;
    let made = clone(&controller, &long, json!({})).await;
    let name = format!("{} (clone)", "語".repeat(247));
    assert_eq!((made.status, &made.body["name"]), (201, &json!(name)), "{}", made.body);
    // Concurrent clones without a name: each gets its own.
    let answers = join_all([0; 5].map(|_| clone(&controller, &computer, json!({})))).await;
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(names(&controller).await.len(), 11);
    // Concurrent clones under one name: one succeeds.
    let answers = join_all([0; 5].map(|_| clone(&controller, &computer, json!({"name": "Same"})))).await;
    let taken = answers.iter().filter(|it| (it.status, &it.body["code"]) == (409, &json!("NAME_TAKEN")));
    assert_eq!(taken.count(), 4, "{answers:?}");
    assert_eq!(names(&controller).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_clone_has_a_code_and_leaves_nothing() {
    let controller = Simulation::boot().await;
    let (_, computer) = create_computer(&controller).await;
    let anonymous = uuid::Uuid::new_v4().to_string();
    let cases = [
        (computer.clone(), json!({"name": ""}), 400, "INVALID_REQUEST"),
        (computer.clone(), json!({"name": "  "}), 400, "INVALID_REQUEST"),
        (computer.clone(), json!({"name": "a".repeat(256)}), 400, "INVALID_REQUEST"),
        (computer.clone(), json!({"name": "a\0"}), 400, "INVALID_REQUEST"),
        (computer.clone(), json!({"name": 7}), 400, "INVALID_REQUEST"),
        (computer.clone(), json!([]), 400, "INVALID_REQUEST"),
        (computer.clone(), json!({"name": " DESK"}), 409, "NAME_TAKEN"),
        (computer.clone(), json!({"targetProjectId": anonymous}), 404, "NOT_FOUND"),
        (computer.clone(), json!({"targetProjectId": "x"}), 404, "NOT_FOUND"),
        (anonymous.clone(), json!({}), 404, "NOT_FOUND"),
    ];
    for (source, body, status, code) in cases {
        let refused = clone(&controller, &source, body.clone()).await;
        let expected = (status, &json!(code));
        assert_eq!((refused.status, &refused.body["code"]), expected, "{body}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{}", refused.body);
    }
    let path = format!("/computers/{computer}/clone");
    let broken = fetch_json(controller.request(Method::POST, &path).body("{")).await;
    assert_eq!((broken.status, &broken.body["code"]), (400, &json!("INVALID_REQUEST")));
    for key in ["sk_live_unknown", ""] {
        let unknown = fetch_json(controller.request_with(key, Method::POST, &path)).await;
        assert_eq!((unknown.status, &unknown.body["code"]), (401, &json!("UNAUTHENTICATED")));
    }
    assert_eq!(names(&controller).await.len(), 1);
    assert_eq!(controller.engine.calls(Verb::CopyDisk), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_charged_like_any_computer() {
    for (limits, code) in [
        (Limits { max_computers: 1, ..Limits::default() }, "DESKTOP_LIMIT"),
        (Limits { max_account_ram_gb: 7, ..Limits::default() }, "RAM_ADDON"),
        (Limits { max_account_disk_gb: 19, ..Limits::default() }, "DISK_QUOTA_EXCEEDED"),
    ] {
        let controller = Simulation::boot_limited(limits).await;
        let (home, computer) = create_computer(&controller).await;
        let refused = clone(&controller, &computer, json!({})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
        // A create is charged alike.
        let body = json!({"workspace_id": home, "name": "two", "disk_size_gb": 10});
        let refused = controller.post("/computers", body).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
        assert_eq!(names(&controller).await.len(), 1, "{code}");
    }
    let limits = Limits { max_cpu: 2, max_ram_gb: 8, ..Limits::default() };
    let controller = Simulation::boot_limited(limits).await;
    let home = controller.workspace("home").await;
    for (field, value, code) in [("cpu", 4, "PER_COMPUTER_CPU_CAP"), ("ram", 16, "PER_COMPUTER_RAM_CAP")] {
        let refused =
            controller.post("/computers", json!({"workspace_id": home, "name": "a", field: value})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
    }
}

/// T23 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t23_of_ten_clones_for_the_last_slot_one_wins() {
    let controller = Simulation::boot_limited(Limits { max_computers: 2, ..Limits::default() }).await;
    let (_, computer) = create_computer(&controller).await;
    let answers = join_all([0; 10].map(|_| clone(&controller, &computer, json!({})))).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    let full = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("DESKTOP_LIMIT")));
    assert_eq!((created, full.count()), (1, 9), "{answers:?}");
    assert_eq!(names(&controller).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_not_clonable() {
    // An engine that copies only stopped computers.
    let controller = Simulation::boot_with_capabilities(Capabilities::default()).await;
    let (_, computer) = create_computer(&controller).await;
    let refused = clone(&controller, &computer, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
    assert_eq!(controller.command(format!("/computers/{computer}/stop")).await.status, 200);
    controller.until_status(&computer, "stopped").await;
    let made = clone(&controller, &computer, json!({})).await;
    assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
    assert_eq!(controller.status(&computer).await, "stopped");

    // An engine that cannot copy disks.
    let controller = Simulation::boot().await;
    let (_, computer) = create_computer(&controller).await;
    let failure = Failure::Before(EngineError::Unsupported("copy a disk"));
    controller.engine.plan(Fault { verb: Verb::CopyDisk, call: 1, failure });
    let refused = clone(&controller, &computer, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
    assert_eq!(names(&controller).await.len(), 1);

    // A source that is in the error state.
    let failure = Failure::Before(EngineError::failed("start", "x"));
    controller.engine.plan(Fault { verb: Verb::Start, call: 2, failure });
    assert_eq!(controller.command(format!("/computers/{computer}/restart")).await.status, 200);
    controller.until_status(&computer, "error").await;
    let refused = clone(&controller, &computer, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
}

/// T18 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_clone_that_fails_anywhere_leaves_nothing_and_its_source_goes_on() {
    let full = || EngineError::NoCapacity(Shortage::DiskSpace, "full".to_owned());
    let broken = || EngineError::failed("copy", "/var/lib/secret: broken");
    let controller = Simulation::boot().await;
    let (_, computer) = create_computer(&controller).await;
    for (verb, failure, status, code) in [
        (Verb::CopyDisk, Failure::Before(broken()), 500, "CLONE_FAILED"),
        (Verb::CopyDisk, Failure::After(broken()), 500, "CLONE_FAILED"),
        (Verb::CopyDisk, Failure::Before(full()), 503, "no_capacity"),
        (Verb::Start, Failure::Before(broken()), 500, "CLONE_FAILED"),
        (Verb::Start, Failure::After(broken()), 500, "CLONE_FAILED"),
    ] {
        let call = controller.engine.calls(verb) + 1;
        let name = format!("{verb:?} {failure:?}");
        controller.engine.plan(Fault { verb, call, failure });
        let refused = clone(&controller, &computer, json!({"name": "copy"})).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{name}: {}",
            refused.body
        );
        assert!(!refused.body.to_string().contains("secret"), "{}", refused.body);
        assert_eq!(names(&controller).await.len(), 1, "{name}");
        assert_eq!(controller.status(&computer).await, "running", "{name}");
    }
    // The name is still free.
    assert_eq!(clone(&controller, &computer, json!({"name": "copy"})).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_half_a_clone_is_undone_at_the_next_start() {
    let mut controller = Simulation::boot().await;
    let (_, computer) = create_computer(&controller).await;
    let source: ComputerId = computer.parse().expect("an id");
    for copied in [false, true] {
        let (extent, plans) = (Extent::Clone, Config::default().plans());
        let copy = NewCopy {
            id: ComputerId::random(),
            source,
            extent,
            workspace: None,
            name: None,
            encrypt: false,
            account_secrets: false,
            plans,
        };
        let stored = controller.store().await.add_copy(&copy).await.expect("stored");
        assert_eq!(stored.name, "desk (clone)");
        if copied {
            let to = MachineSpec { id: copy.id, ..controller.size(&computer) };
            controller.engine.copy_disk(source, &to).await.expect("copied");
            assert_eq!(controller.machines().len(), 2);
        }
        controller.restart().await;
        controller.until_status(&copy.id.to_string(), "none").await;
        controller.until_status(&computer, "running").await;
        assert_eq!(names(&controller).await.len(), 1, "copied: {copied}");
    }
    assert_eq!(clone(&controller, &computer, json!({})).await.body["name"], "desk (clone)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_waits_for_its_source_s_turn() {
    let controller = Simulation::boot().await;
    let (_, computer) = create_computer(&controller).await;
    // A stop and a delete during the copy wait for its end.
    let failure = Failure::Delay(std::time::Duration::from_millis(300));
    controller.engine.plan(Fault { verb: Verb::CopyDisk, call: 1, failure });
    let path = format!("/computers/{computer}");
    let removal = async {
        let started = hotdesk::base::wait::until(std::time::Duration::from_secs(5), || async {
            (controller.engine.calls(Verb::CopyDisk) == 1).then_some(())
        });
        started.await.expect("the copy must begin");
        controller.delete(&path).await
    };
    let (made, removed) = tokio::join!(clone(&controller, &computer, json!({})), removal);
    assert_eq!((made.status, removed.status), (201, 200), "{} {}", made.body, removed.body);
    let note = controller.disk(&id_of(&made.body)).join("work/note");
    assert_eq!(std::fs::read_to_string(note).expect("copied"), "kept");
    assert_eq!(names(&controller).await, BTreeSet::from(["desk (clone)".to_owned()]));
}

/// Adds a key that is scoped to one workspace.
async fn scoped_key(controller: &Simulation, workspace: &str) -> String {
    let text = keys::generate();
    let store = controller.store().await;
    let account = store.operator_account().await.expect("the operator");
    let digest = keys::digest(text.reveal());
    let workspace = Some(workspace.parse().expect("an id"));
    let key =
        NewKey { account, workspace, name: "scoped", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("stored");
    text.reveal().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_and_a_move_reach_no_workspace_that_the_key_does_not() {
    let controller = Simulation::boot().await;
    let (home, computer) = create_computer(&controller).await;
    let away = controller.workspace("away").await;
    let key = scoped_key(&controller, &home).await;
    for (method, path, body) in [
        (Method::POST, "clone", json!({"targetProjectId": away})),
        (Method::PATCH, "move", json!({"workspace_id": away})),
    ] {
        let request = controller.request_with(&key, method, &format!("/computers/{computer}/{path}"));
        let refused = fetch_json(request.json(&body)).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
        assert_eq!(refused.body["code"], "workspace_scope_mismatch", "{path}");
        assert_eq!(refused.body["target_workspace_id"], away, "{path}");
    }
    assert_eq!(names(&controller).await.len(), 1);
    let made = clone(&controller, &computer, json!({"targetProjectId": away})).await;
    assert_eq!((made.status, &made.body["workspace_id"]), (201, &json!(away)), "{}", made.body);
    let own =
        fetch_json(controller.request_with(&key, Method::POST, &format!("/computers/{computer}/clone")))
            .await;
    assert_eq!((own.status, &own.body["workspace_id"]), (201, &json!(home)), "{}", own.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_moves_between_workspaces_as_it_is() {
    let controller = Simulation::boot().await;
    let (home, computer) = create_computer(&controller).await;
    let away = controller.workspace("away").await;
    let before = controller.get(&format!("/computers/{computer}")).await.body;
    let form = reqwest::multipart::Form::new()
        .text("projectId", home.clone())
        .text("desktopId", computer.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("own.txt"));
    let stored = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);

    let answer = move_computer(&controller, &computer, json!({"workspace_id": away})).await;
    let expected = json!({"success": true, "workspace_id": away, "project_id": away});
    assert_eq!((answer.status, answer.body), (200, expected));
    let after = controller.get(&format!("/computers/{computer}")).await.body;
    assert_eq!((&after["workspace_id"], &after["project_name"]), (&json!(away), &json!("away")));
    for same in ["id", "instance_id", "vnc_password", "status", "name"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert_eq!(controller.get(&format!("/workspaces/{home}")).await.body["computer_count"], 0);
    assert_eq!(controller.get(&format!("/workspaces/{away}")).await.body["computer_count"], 1);
    let files = controller.get(&format!("/files?projectId={away}")).await.body;
    assert_eq!(files["files"][0]["filename"], "own.txt", "{files}");
    // POST on the same path moves the pointer.
    let pointed = controller.post(&format!("/computers/{computer}/move"), json!({"x": 1, "y": 1})).await;
    assert_eq!((pointed.status, &pointed.body["success"]), (200, &json!(true)), "{}", pointed.body);

    // A stopped computer, by the instance handle, with the older name of the field.
    controller.command(format!("/computers/{computer}/stop")).await;
    controller.until_status(&computer, "stopped").await;
    let handle = before["instance_id"].as_str().expect("a handle");
    assert_eq!(move_computer(&controller, handle, json!({"project_id": home})).await.status, 200);
    assert_eq!(controller.status(&computer).await, "stopped");

    let anonymous = uuid::Uuid::new_v4().to_string();
    for (id, body, status) in [
        (&computer, json!({}), 400),
        (&computer, json!({"x": 1, "y": 1}), 400),
        (&computer, json!({"workspace_id": home}), 400),
        (&computer, json!({"workspace_id": 7}), 400),
        (&computer, json!({"workspace_id": anonymous}), 404),
        (&computer, json!({"workspace_id": ""}), 404),
        (&anonymous, json!({"workspace_id": away}), 404),
    ] {
        let refused = move_computer(&controller, id, body.clone()).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    controller.computer(&away, "DESK").await;
    let clash = move_computer(&controller, &computer, json!({"workspace_id": away})).await;
    assert_eq!((clash.status, &clash.body["code"]), (409, &json!("NAME_TAKEN")), "{}", clash.body);
    let still = controller.get(&format!("/computers/{computer}")).await.body;
    assert_eq!(still["workspace_id"], home);
}
