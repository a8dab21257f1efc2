//! Do `computers clone`, `fork`, `resize` and `move`, and `snapshots`, do it, and say what came of it?

use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::json;

use super::person::Person;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_cloned_resized_and_moved() {
    let house = Simulation::boot().await;
    let (demo, other) = (house.workspace("demo").await, house.workspace("other").await);
    let desk = house.computer(&demo, "desk").await;
    let person = Person::knowing(&house.base, house.key());
    let said = person.runs(&["computers", "clone", "desk"]).await.well();
    assert!(said.starts_with("desk (clone) is running ("), "{said}");
    let clone = ["computers", "clone", "desk", "copy", "--workspace", "other", "--json"];
    let made = person.runs(&clone).await.json();
    assert_eq!((&made["name"], &made["workspace_id"]), (&json!("copy"), &json!(other)));
    person.runs(&["computers", "clone", "desk", "DESK"]).await.badly(1, &["NAME_TAKEN"]);

    let said = person.runs(&["computers", "resize", "desk", "--cpu", "2", "--disk", "20"]).await.well();
    assert_eq!(said, "desk has 2 vCPU, 4 GB, 20 GB disk.\n");
    let call = house.engine.calls(Verb::Resize) + 1;
    let failure = Failure::Before(EngineError::NoCapacity("full".to_owned()));
    house.engine.plan(Fault { verb: Verb::Resize, call, failure });
    let said = person.runs(&["computers", "resize", "desk", "--ram", "8", "--disk", "30"]).await.well();
    let expected = "mem_mb stays 4096: The host has no room for it.\ndesk has 2 vCPU, 4 GB, 30 GB disk.\n";
    assert_eq!(said, expected);
    person.runs(&["computers", "resize", "desk", "--ram", "5"]).await.badly(1, &["mem_gb"]);
    person.runs(&["computers", "resize", "desk"]).await.badly(2, &["--cpu"]);

    let said = person.runs(&["computers", "move", "desk", "other"]).await.well();
    assert_eq!(said, "desk is in other now.\n");
    assert_eq!(house.get(&format!("/computers/{desk}")).await.body["workspace_id"], other);
    person.runs(&["computers", "move", "desk", "other"]).await.badly(1, &["already"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_forked_kept_and_rolled_back() {
    let house = Simulation::boot().await;
    let demo = house.workspace("demo").await;
    let desk = house.computer(&demo, "desk").await;
    let person = Person::knowing(&house.base, house.key());
    let said = person.runs(&["computers", "fork", "desk"]).await.well();
    assert!(said.starts_with("desk (fork) is running ("), "{said}");

    let said = person.runs(&["snapshots", "list", "desk"]).await.well();
    assert_eq!(said, "desk has no snapshots.\n");
    let note = house.disk(&desk).join("note");
    std::fs::write(&note, "kept").expect("a file");
    let said = person.runs(&["snapshots", "create", "desk", "before"]).await.well();
    assert!(said.starts_with("Snapshot ") && said.ends_with(" is ready.\n"), "{said}");
    let create = ["snapshot", "create", "desk", "--memory", "--json"];
    let with_memory = person.runs(&create).await.json();
    assert_eq!((&with_memory["memory"], &with_memory["name"]), (&json!(true), &json!(null)));
    let said = person.runs(&["snapshots", "list", "desk"]).await.well();
    assert!(said.contains("before") && said.contains("disk, memory"), "{said}");

    std::fs::write(&note, "changed").expect("a file");
    let said = person.runs(&["snapshots", "rollback", "desk", "BEFORE"]).await.well();
    assert_eq!(said, "desk is as it was at BEFORE and running.\n");
    assert_eq!(std::fs::read_to_string(&note).expect("there"), "kept");
    assert_eq!(
        person.runs(&["snapshots", "delete", "desk", "before"]).await.well(),
        "Removed snapshot before.\n"
    );
    person.runs(&["snapshots", "rollback", "desk", "before"]).await.badly(1, &["there is no snapshot"]);
    let id = with_memory["id"].as_str().expect("an id");
    person.runs(&["snapshots", "rollback", "desk", id]).await.well();
    let launch = ["computers", "fork", "desk", "two", "--snapshot", id, "--json"];
    let launched = person.runs(&launch).await.json();
    assert_eq!((&launched["name"], &launched["status"]), (&json!("two"), &json!("running")));
    person.runs(&["computers", "fork", "desk", "-s", "before"]).await.badly(1, &["there is no snapshot"]);
    person.runs(&["snapshots", "create", "nobody"]).await.badly(1, &["there is no computer"]);
}
