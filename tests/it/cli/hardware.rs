//! Do `computers clone`, `resize` and `move` do it, and say what came of it?

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
