//! Are clones whole, separate and paid for, and do moves keep what moves? (interface.md "Clone", wire.md 5.2; threats.md
//! T18, T23, T28)

mod identity;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::controller::auth::keys;
use hotdesk::controller::config::{Config, Limits};
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Capabilities, Engine, EngineError, MachineSpec};
use hotdesk::store::accounts::NewKey;
use hotdesk::store::computers::Computer;
use hotdesk::store::copies::{Extent, NewCopy};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A house with a computer `desk` in workspace `home`; their ids.
async fn with_a_desk(house: &Simulation) -> (String, String) {
    let home = house.workspace("home").await;
    let order = json!({"workspace_id": home, "name": "desk", "cpu": 2, "disk_size_gb": 10,
        "auto_stop_minutes": 15, "resolution": "800x600x24"});
    let desk = id_of(&house.made("/computers", order).await);
    std::fs::create_dir(house.disk(&desk).join("work")).expect("a folder");
    std::fs::write(house.disk(&desk).join("work/note"), "kept").expect("a file");
    (home, desk)
}

async fn clone(house: &Simulation, source: &str, body: Value) -> Answered {
    house.post(&format!("/computers/{source}/clone"), body).await
}

async fn row(house: &Simulation, id: &str) -> Computer {
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    house.store().await.computer(&reference).await.expect("the store answers").expect("a row")
}

async fn moved(house: &Simulation, id: &str, body: Value) -> Answered {
    house.patch(&format!("/computers/{id}/move"), body).await
}

/// The names of the computers that there are.
async fn names(house: &Simulation) -> BTreeSet<String> {
    let listed = house.get("/computers").await.body;
    let all = listed["computers"].as_array().expect("a list");
    assert_eq!(house.machines().len(), all.len(), "as many machines as rows");
    all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_has_its_source_s_disk_and_an_identity_of_its_own() {
    let house = Simulation::boot().await;
    let (home, desk) = with_a_desk(&house).await;
    let source = house.get(&format!("/computers/{desk}")).await.body;
    // No body at all, and the instance handle instead of the UUID.
    let instance = source["instance_id"].as_str().expect("a handle");
    let made = answered(house.request(Method::POST, &format!("/computers/{instance}/clone"))).await;
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
    let (first, second) = (row(&house, &desk).await, row(&house, &id).await);
    assert_ne!(first.agent_token.reveal(), second.agent_token.reveal());
    assert_eq!(std::fs::read_to_string(house.disk(&id).join("work/note")).expect("copied"), "kept");
    // Each goes on by itself; the clone's handle is one for its own clone.
    std::fs::write(house.disk(&id).join("work/note"), "changed").expect("a file");
    assert_eq!(std::fs::read_to_string(house.disk(&desk).join("work/note")).expect("there"), "kept");
    assert_eq!(house.status(&desk).await, "running");
    let again =
        clone(&house, copy["instance_id"].as_str().expect("a handle"), json!({"name": " own "})).await;
    assert_eq!((again.status, &again.body["name"]), (201, &json!("own")), "{}", again.body);
    assert_eq!(
        std::fs::read_to_string(house.disk(&id_of(&again.body)).join("work/note")).expect("copied"),
        "changed"
    );
    assert_eq!(house.delete(&format!("/computers/{desk}")).await.status, 200);
    assert_eq!(house.status(&id).await, "running", "a clone outlives its source");
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_names_are_free_and_never_too_long() {
    let house = Simulation::boot().await;
    let (home, desk) = with_a_desk(&house).await;
    for expected in ["desk (clone)", "desk (clone 2)", "desk (clone 3)"] {
        let made = clone(&house, &desk, json!({"name": null})).await;
        assert_eq!((made.status, &made.body["name"]), (201, &json!(expected)), "{}", made.body);
    }
    let long = house.computer(&home, &"語".repeat(255)).await;
    let made = clone(&house, &long, json!({})).await;
    let name = format!("{} (clone)", "語".repeat(247));
    assert_eq!((made.status, &made.body["name"]), (201, &json!(name)), "{}", made.body);
    // At once: each its own.
    let answers = join_all([0; 5].map(|_| clone(&house, &desk, json!({})))).await;
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(names(&house).await.len(), 11);
    // At once under one name: one.
    let answers = join_all([0; 5].map(|_| clone(&house, &desk, json!({"name": "Same"})))).await;
    let taken = answers.iter().filter(|it| (it.status, &it.body["code"]) == (409, &json!("NAME_TAKEN")));
    assert_eq!(taken.count(), 4, "{answers:?}");
    assert_eq!(names(&house).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_clone_has_a_code_and_leaves_nothing() {
    let house = Simulation::boot().await;
    let (_, desk) = with_a_desk(&house).await;
    let nobody = uuid::Uuid::new_v4().to_string();
    let cases = [
        (desk.clone(), json!({"name": ""}), 400, "INVALID_REQUEST"),
        (desk.clone(), json!({"name": "  "}), 400, "INVALID_REQUEST"),
        (desk.clone(), json!({"name": "a".repeat(256)}), 400, "INVALID_REQUEST"),
        (desk.clone(), json!({"name": "a\0"}), 400, "INVALID_REQUEST"),
        (desk.clone(), json!({"name": 7}), 400, "INVALID_REQUEST"),
        (desk.clone(), json!([]), 400, "INVALID_REQUEST"),
        (desk.clone(), json!({"name": " DESK"}), 409, "NAME_TAKEN"),
        (desk.clone(), json!({"targetProjectId": nobody}), 404, "NOT_FOUND"),
        (desk.clone(), json!({"targetProjectId": "x"}), 404, "NOT_FOUND"),
        (nobody.clone(), json!({}), 404, "NOT_FOUND"),
    ];
    for (source, body, status, code) in cases {
        let refused = clone(&house, &source, body.clone()).await;
        let expected = (status, &json!(code));
        assert_eq!((refused.status, &refused.body["code"]), expected, "{body}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{}", refused.body);
    }
    let path = format!("/computers/{desk}/clone");
    let broken = answered(house.request(Method::POST, &path).body("{")).await;
    assert_eq!((broken.status, &broken.body["code"]), (400, &json!("INVALID_REQUEST")));
    for key in ["sk_live_unknown", ""] {
        let unknown = answered(house.request_with(key, Method::POST, &path)).await;
        assert_eq!((unknown.status, &unknown.body["code"]), (401, &json!("UNAUTHENTICATED")));
    }
    assert_eq!(names(&house).await.len(), 1);
    assert_eq!(house.engine.calls(Verb::CopyDisk), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_charged_like_any_computer() {
    for (limits, code) in [
        (Limits { max_computers: 1, ..Limits::default() }, "DESKTOP_LIMIT"),
        (Limits { max_account_ram_gb: 7, ..Limits::default() }, "RAM_ADDON"),
        (Limits { max_account_disk_gb: 19, ..Limits::default() }, "DISK_QUOTA_EXCEEDED"),
    ] {
        let house = Simulation::boot_limited(limits).await;
        let (home, desk) = with_a_desk(&house).await;
        let refused = clone(&house, &desk, json!({})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
        // As a create is.
        let order = json!({"workspace_id": home, "name": "two", "disk_size_gb": 10});
        let refused = house.post("/computers", order).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
        assert_eq!(names(&house).await.len(), 1, "{code}");
    }
    let limits = Limits { max_cpu: 2, max_ram_gb: 8, ..Limits::default() };
    let house = Simulation::boot_limited(limits).await;
    let home = house.workspace("home").await;
    for (field, value, code) in [("cpu", 4, "PER_COMPUTER_CPU_CAP"), ("ram", 16, "PER_COMPUTER_RAM_CAP")] {
        let refused =
            house.post("/computers", json!({"workspace_id": home, "name": "a", field: value})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
    }
}

/// threats.md T23.
#[tokio::test(flavor = "multi_thread")]
async fn t23_of_ten_clones_for_the_last_slot_one_wins() {
    let house = Simulation::boot_limited(Limits { max_computers: 2, ..Limits::default() }).await;
    let (_, desk) = with_a_desk(&house).await;
    let answers = join_all([0; 10].map(|_| clone(&house, &desk, json!({})))).await;
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    let full = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("DESKTOP_LIMIT")));
    assert_eq!((won, full.count()), (1, 9), "{answers:?}");
    assert_eq!(names(&house).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_not_clonable() {
    // An engine that copies only what rests.
    let house = Simulation::boot_able(Capabilities::default()).await;
    let (_, desk) = with_a_desk(&house).await;
    let refused = clone(&house, &desk, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
    assert_eq!(house.command(format!("/computers/{desk}/stop")).await.status, 200);
    house.until_status(&desk, "stopped").await;
    let made = clone(&house, &desk, json!({})).await;
    assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
    assert_eq!(house.status(&desk).await, "stopped");

    // One that copies nothing.
    let house = Simulation::boot().await;
    let (_, desk) = with_a_desk(&house).await;
    let failure = Failure::Before(EngineError::Unsupported("copy a disk"));
    house.engine.plan(Fault { verb: Verb::CopyDisk, call: 1, failure });
    let refused = clone(&house, &desk, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
    assert_eq!(names(&house).await.len(), 1);

    // A source that is broken.
    let failure = Failure::Before(EngineError::failed("start", "x"));
    house.engine.plan(Fault { verb: Verb::Start, call: 2, failure });
    assert_eq!(house.command(format!("/computers/{desk}/restart")).await.status, 200);
    house.until_status(&desk, "error").await;
    let refused = clone(&house, &desk, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NOT_CLONABLE")), "{}", refused.body);
}

/// threats.md T18.
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_clone_that_fails_anywhere_leaves_nothing_and_its_source_goes_on() {
    let full = || EngineError::NoCapacity("full".to_owned());
    let broken = || EngineError::failed("copy", "/var/lib/secret: broken");
    let house = Simulation::boot().await;
    let (_, desk) = with_a_desk(&house).await;
    for (verb, failure, status, code) in [
        (Verb::CopyDisk, Failure::Before(broken()), 500, "CLONE_FAILED"),
        (Verb::CopyDisk, Failure::After(broken()), 500, "CLONE_FAILED"),
        (Verb::CopyDisk, Failure::Before(full()), 503, "no_capacity"),
        (Verb::Start, Failure::Before(broken()), 500, "CLONE_FAILED"),
        (Verb::Start, Failure::After(broken()), 500, "CLONE_FAILED"),
    ] {
        let call = house.engine.calls(verb) + 1;
        let name = format!("{verb:?} {failure:?}");
        house.engine.plan(Fault { verb, call, failure });
        let refused = clone(&house, &desk, json!({"name": "copy"})).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{name}: {}",
            refused.body
        );
        assert!(!refused.body.to_string().contains("secret"), "{}", refused.body);
        assert_eq!(names(&house).await.len(), 1, "{name}");
        assert_eq!(house.status(&desk).await, "running", "{name}");
    }
    // The name is free still.
    assert_eq!(clone(&house, &desk, json!({"name": "copy"})).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_half_a_clone_is_undone_at_the_next_start() {
    let mut house = Simulation::boot().await;
    let (_, desk) = with_a_desk(&house).await;
    let source: ComputerId = desk.parse().expect("an id");
    for copied in [false, true] {
        let (extent, plans) = (Extent::Clone, Config::default().plans());
        let copy = NewCopy { id: ComputerId::random(), source, extent, workspace: None, name: None, plans };
        let stored = house.store().await.add_copy(&copy).await.expect("stored");
        assert_eq!(stored.name, "desk (clone)");
        if copied {
            let to = MachineSpec { id: copy.id, ..house.size(&desk) };
            house.engine.copy_disk(source, &to).await.expect("copied");
            assert_eq!(house.machines().len(), 2);
        }
        house.restart().await;
        house.until_status(&copy.id.to_string(), "none").await;
        house.until_status(&desk, "running").await;
        assert_eq!(names(&house).await.len(), 1, "copied: {copied}");
    }
    assert_eq!(clone(&house, &desk, json!({})).await.body["name"], "desk (clone)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_waits_for_its_source_s_turn() {
    let house = Simulation::boot().await;
    let (_, desk) = with_a_desk(&house).await;
    // Stopped and deleted in the middle: the copy comes first, whole.
    let failure = Failure::Delay(std::time::Duration::from_millis(300));
    house.engine.plan(Fault { verb: Verb::CopyDisk, call: 1, failure });
    let path = format!("/computers/{desk}");
    let removal = async {
        let begun = hotdesk::base::wait::until(std::time::Duration::from_secs(5), || async {
            (house.engine.calls(Verb::CopyDisk) == 1).then_some(())
        });
        begun.await.expect("it began");
        house.delete(&path).await
    };
    let (made, removed) = tokio::join!(clone(&house, &desk, json!({})), removal);
    assert_eq!((made.status, removed.status), (201, 200), "{} {}", made.body, removed.body);
    let note = house.disk(&id_of(&made.body)).join("work/note");
    assert_eq!(std::fs::read_to_string(note).expect("copied"), "kept");
    assert_eq!(names(&house).await, BTreeSet::from(["desk (clone)".to_owned()]));
}

/// A key that reaches one workspace only.
async fn scoped_key(house: &Simulation, workspace: &str) -> String {
    let text = keys::fresh();
    let store = house.store().await;
    let account = store.operator().await.expect("the operator");
    let digest = keys::digest(text.reveal());
    let workspace = Some(workspace.parse().expect("an id"));
    let key =
        NewKey { account, workspace, name: "scoped", digest: &digest, last_four: keys::last_four(&text) };
    store.add_key(&key).await.expect("stored");
    text.reveal().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_and_a_move_reach_no_workspace_that_the_key_does_not() {
    let house = Simulation::boot().await;
    let (home, desk) = with_a_desk(&house).await;
    let away = house.workspace("away").await;
    let key = scoped_key(&house, &home).await;
    for (method, path, body) in [
        (Method::POST, "clone", json!({"targetProjectId": away})),
        (Method::PATCH, "move", json!({"workspace_id": away})),
    ] {
        let request = house.request_with(&key, method, &format!("/computers/{desk}/{path}"));
        let refused = answered(request.json(&body)).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
        assert_eq!(refused.body["code"], "workspace_scope_mismatch", "{path}");
        assert_eq!(refused.body["target_workspace_id"], away, "{path}");
    }
    assert_eq!(names(&house).await.len(), 1);
    let made = clone(&house, &desk, json!({"targetProjectId": away})).await;
    assert_eq!((made.status, &made.body["workspace_id"]), (201, &json!(away)), "{}", made.body);
    let own = answered(house.request_with(&key, Method::POST, &format!("/computers/{desk}/clone"))).await;
    assert_eq!((own.status, &own.body["workspace_id"]), (201, &json!(home)), "{}", own.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_moves_between_workspaces_as_it_is() {
    let house = Simulation::boot().await;
    let (home, desk) = with_a_desk(&house).await;
    let away = house.workspace("away").await;
    let before = house.get(&format!("/computers/{desk}")).await.body;
    let form = reqwest::multipart::Form::new()
        .text("projectId", home.clone())
        .text("desktopId", desk.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("own.txt"));
    let stored = answered(house.request(Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);

    let told = moved(&house, &desk, json!({"workspace_id": away})).await;
    let expected = json!({"success": true, "workspace_id": away, "project_id": away});
    assert_eq!((told.status, told.body), (200, expected));
    let after = house.get(&format!("/computers/{desk}")).await.body;
    assert_eq!((&after["workspace_id"], &after["project_name"]), (&json!(away), &json!("away")));
    for same in ["id", "instance_id", "vnc_password", "status", "name"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert_eq!(house.get(&format!("/workspaces/{home}")).await.body["computer_count"], 0);
    assert_eq!(house.get(&format!("/workspaces/{away}")).await.body["computer_count"], 1);
    let files = house.get(&format!("/files?projectId={away}")).await.body;
    assert_eq!(files["files"][0]["filename"], "own.txt", "{files}");
    // The same path by POST is the pointer's.
    let pointed = house.post(&format!("/computers/{desk}/move"), json!({"x": 1, "y": 1})).await;
    assert_eq!((pointed.status, &pointed.body["success"]), (200, &json!(true)), "{}", pointed.body);

    // Stopped, under the older name of the field, by the instance handle.
    house.command(format!("/computers/{desk}/stop")).await;
    house.until_status(&desk, "stopped").await;
    let handle = before["instance_id"].as_str().expect("a handle");
    assert_eq!(moved(&house, handle, json!({"project_id": home})).await.status, 200);
    assert_eq!(house.status(&desk).await, "stopped");

    let nobody = uuid::Uuid::new_v4().to_string();
    for (id, body, status) in [
        (&desk, json!({}), 400),
        (&desk, json!({"x": 1, "y": 1}), 400),
        (&desk, json!({"workspace_id": home}), 400),
        (&desk, json!({"workspace_id": 7}), 400),
        (&desk, json!({"workspace_id": nobody}), 404),
        (&desk, json!({"workspace_id": ""}), 404),
        (&nobody, json!({"workspace_id": away}), 404),
    ] {
        let refused = moved(&house, id, body.clone()).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    house.computer(&away, "DESK").await;
    let clash = moved(&house, &desk, json!({"workspace_id": away})).await;
    assert_eq!((clash.status, &clash.body["code"]), (409, &json!("NAME_TAKEN")), "{}", clash.body);
    let still = house.get(&format!("/computers/{desk}")).await.body;
    assert_eq!(still["workspace_id"], home);
}
