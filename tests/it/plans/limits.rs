//! Is a plan held to its last unit, whoever asks and however many at once?

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{config, small};
use crate::harness::agent::{Answered, answered};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

async fn order(house: &Simulation, key: &str, mut body: Value, workspace: &str) -> Answered {
    body["workspace_id"] = json!(workspace);
    answered(house.request_with(key, Method::POST, "/computers").json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_creates_for_the_last_slot_one_wins_and_the_others_leave_nothing() {
    let house = Simulation::boot_configured(config()).await;
    let workspace = house.workspace("demo").await;
    let away = house.workspace("away").await;
    for name in ["one", "two"] {
        house.computer(&workspace, name).await;
    }
    // The slot is the account's, whichever workspace it is for.
    let asked = (0..50).map(|number| {
        let workspace = if number % 2 == 0 { &workspace } else { &away };
        order(&house, house.key(), json!({"name": format!("race {number}")}), workspace)
    });
    let answers = join_all(asked).await;
    let won: Vec<&Answered> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", lost.body);
    }
    assert_eq!(house.get("/computers").await.body["total"], 3);
    assert_eq!(house.machines().len(), 3);
    // What one gives back another can have.
    assert_eq!(house.delete(&format!("/computers/{}", id_of(&won[0].body))).await.status, 200);
    house.computer(&away, "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_many_creates_for_the_last_ram_as_many_win_as_fit() {
    let house = Simulation::boot_configured(config()).await;
    let small = small(&house).await;
    let (key, workspace) = (small.key, small.workspace);
    // 12 GB: an 8 and a 4, or two of 4, and two computers in any case.
    let asked =
        (0..20).map(|number| order(&house, &key, json!({"name": format!("{number}"), "ram": 8}), &workspace));
    let answers = join_all(asked).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.status == 201 || answer.body["code"] == "RAM_ADDON"),
        "{answers:?}"
    );
    assert_eq!(order(&house, &key, json!({"name": "fits", "ram": 4}), &workspace).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_bound_by_the_plan_of_its_workspace_s_owner() {
    let house = Simulation::boot_configured(config()).await;
    let small = small(&house).await;
    let (key, workspace) = (small.key, small.workspace);
    for (body, code) in [
        (json!({"name": "a", "cpu": 4}), "PER_COMPUTER_CPU_CAP"),
        (json!({"name": "a", "ram": 16}), "PER_COMPUTER_RAM_CAP"),
        (json!({"name": "a", "disk_size_gb": 21}), "DISK_QUOTA_EXCEEDED"),
    ] {
        let refused = order(&house, &key, body, &workspace).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
    }
    let own = order(&house, &key, json!({"name": "a"}), &workspace).await;
    assert_eq!(own.status, 201, "{}", own.body);
    let id = id_of(&own.body);
    assert_eq!(house.size(&id).bandwidth_mbps, 100, "what the plan gives");
    // A member works in the workspace, and its owner's plan counts: not the member's own of three computers.
    let (member, guest) = house.account("guest@example.org").await;
    let store = house.store().await;
    let role = hotdesk::domain::access::Role::Member;
    store.set_member(workspace.parse().expect("an id"), member, role).await.expect("stored");
    let ask = |method, path: String| house.request_with(&guest, method, &path);
    let clone = || answered(ask(Method::POST, format!("/computers/{id}/clone")));
    assert_eq!(clone().await.status, 201);
    let refused = clone().await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("VM_SLOT_ADDON")), "{}", refused.body);
    let most = answered(ask(Method::GET, format!("/computers/{id}/resize"))).await.body;
    assert_eq!(
        [&most["max_cpu"], &most["max_ram_gb"], &most["max_disk_gb"], &most["bandwidth_limit_mbps"]],
        [&json!(2.0), &json!(8), &json!(16), &json!(100)],
        "{most}"
    );
    let path = format!("/computers/{id}/resize");
    let grown = answered(ask(Method::POST, path).json(&json!({"vcpus": 4}))).await;
    assert_eq!((grown.status, &grown.body["code"]), (403, &json!("PER_COMPUTER_CPU_CAP")), "{}", grown.body);
    let limits = format!("/billing/compute-limits?workspace_id={workspace}");
    let told = answered(ask(Method::GET, limits)).await.body;
    let expected = json!({"max_computers": 2, "computers_used": 2, "max_ram_gb": 8, "account_ram_budget_gb": 12,
        "account_ram_used_gb": 8});
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_stays_with_its_owner_whose_plan_it_is_on() {
    let house = Simulation::boot_configured(config()).await;
    let there = small(&house).await.workspace;
    let store = house.store().await;
    let operator = store.operator().await.expect("the operator");
    let role = hotdesk::domain::access::Role::Admin;
    store.set_member(there.parse().expect("an id"), operator, role).await.expect("stored");
    let (here, near) = (house.workspace("here").await, house.workspace("near").await);
    let id = house.computer(&here, "desk").await;
    let moved = async |workspace: &str| {
        house.patch(&format!("/computers/{id}/move"), json!({"workspace_id": workspace})).await
    };
    let refused = moved(&there).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(
        refused.body["error"].as_str().is_some_and(|said| said.contains("one owner")),
        "{}",
        refused.body
    );
    assert_eq!(moved(&near).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_whose_plan_is_gone_keeps_what_it_has_and_gets_no_more() {
    let house = Simulation::boot_configured(config()).await;
    let workspace = house.workspace("demo").await;
    let id = house.computer(&workspace, "one").await;
    house.sql("UPDATE accounts SET plan = 'of last year'").await;
    let refused = order(&house, house.key(), json!({"name": "two"}), &workspace).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("CHANGE_PLAN")), "{}", refused.body);
    assert_eq!(house.command(format!("/computers/{id}/stop")).await.status, 200);
    house.until_status(&id, "stopped").await;
    assert_eq!(house.command(format!("/computers/{id}/start")).await.status, 200);
    house.until_status(&id, "running").await;
}
