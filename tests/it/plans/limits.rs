//! Plan limits of computers with many requests at once, for every kind of member.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{config, small_account};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

async fn create(controller: &Simulation, key: &str, mut body: Value, workspace: &str) -> HttpAnswer {
    body["workspace_id"] = json!(workspace);
    fetch_json(controller.request_with(key, Method::POST, "/computers").json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_fifty_creates_for_the_last_slot_one_wins_and_the_others_leave_nothing() {
    let controller = Simulation::boot_configured(config()).await;
    let workspace = controller.workspace("demo").await;
    let away = controller.workspace("away").await;
    for name in ["one", "two"] {
        controller.computer(&workspace, name).await;
    }
    // The slot is the account's, whichever workspace it is for.
    let requests = (0..50).map(|number| {
        let workspace = if number % 2 == 0 { &workspace } else { &away };
        create(&controller, controller.key(), json!({"name": format!("race {number}")}), workspace)
    });
    let answers = join_all(requests).await;
    let won: Vec<&HttpAnswer> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((lost.status, &lost.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", lost.body);
    }
    assert_eq!(controller.get("/computers").await.body["total"], 3);
    assert_eq!(controller.machines().len(), 3);
    // A freed slot can be used again.
    assert_eq!(controller.delete(&format!("/computers/{}", id_of(&won[0].body))).await.status, 200);
    controller.computer(&away, "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_of_many_creates_for_the_last_ram_as_many_win_as_fit() {
    let controller = Simulation::boot_configured(config()).await;
    let small_account = small_account(&controller).await;
    let (key, workspace) = (small_account.key, small_account.workspace);
    // 12 GB fit one computer of 8 GB and one of 4 GB, and the plan has two computers.
    let requests = (0..20)
        .map(|number| create(&controller, &key, json!({"name": format!("{number}"), "ram": 8}), &workspace));
    let answers = join_all(requests).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.status == 201 || answer.body["code"] == "RAM_ADDON"),
        "{answers:?}"
    );
    assert_eq!(create(&controller, &key, json!({"name": "fits", "ram": 4}), &workspace).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_bound_by_the_plan_of_its_workspace_s_owner() {
    let controller = Simulation::boot_configured(config()).await;
    let small_account = small_account(&controller).await;
    let (key, workspace) = (small_account.key, small_account.workspace);
    for (body, code) in [
        (json!({"name": "a", "cpu": 4}), "PER_COMPUTER_CPU_CAP"),
        (json!({"name": "a", "ram": 16}), "PER_COMPUTER_RAM_CAP"),
        (json!({"name": "a", "disk_size_gb": 21}), "DISK_QUOTA_EXCEEDED"),
    ] {
        let refused = create(&controller, &key, body, &workspace).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
    }
    let own = create(&controller, &key, json!({"name": "a"}), &workspace).await;
    assert_eq!(own.status, 201, "{}", own.body);
    let id = id_of(&own.body);
    assert_eq!(controller.size(&id).bandwidth_mbps, 100, "the plan's bandwidth");
    // A computer that a member creates counts for the workspace owner's plan, not for the member's.
    let (member, guest) = controller.account("guest@example.org").await;
    let store = controller.store().await;
    let role = hotdesk::domain::identity::access::Role::Member;
    store.set_member(workspace.parse().expect("an id"), member, role).await.expect("stored");
    let ask = |method, path: String| controller.request_with(&guest, method, &path);
    let clone = || fetch_json(ask(Method::POST, format!("/computers/{id}/clone")));
    assert_eq!(clone().await.status, 201);
    let refused = clone().await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("VM_SLOT_ADDON")), "{}", refused.body);
    let most = fetch_json(ask(Method::GET, format!("/computers/{id}/resize"))).await.body;
    assert_eq!(
        [&most["max_cpu"], &most["max_ram_gb"], &most["max_disk_gb"], &most["bandwidth_limit_mbps"]],
        [&json!(2), &json!(8), &json!(16), &json!(100)],
        "{most}"
    );
    let path = format!("/computers/{id}/resize");
    let grown = fetch_json(ask(Method::POST, path).json(&json!({"vcpus": 4}))).await;
    assert_eq!((grown.status, &grown.body["code"]), (403, &json!("PER_COMPUTER_CPU_CAP")), "{}", grown.body);
    let limits = format!("/billing/compute-limits?workspace_id={workspace}");
    let limits_body = fetch_json(ask(Method::GET, limits)).await.body;
    let expected = json!({"max_computers": 2, "computers_used": 2, "max_ram_gb": 8, "account_ram_budget_gb": 12,
        "account_ram_used_gb": 8});
    assert_eq!(limits_body, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_stays_with_its_owner_whose_plan_it_is_on() {
    let controller = Simulation::boot_configured(config()).await;
    let there = small_account(&controller).await.workspace;
    let store = controller.store().await;
    let operator = store.operator_account().await.expect("the operator");
    let role = hotdesk::domain::identity::access::Role::Admin;
    store.set_member(there.parse().expect("an id"), operator, role).await.expect("stored");
    let (here, near) = (controller.workspace("here").await, controller.workspace("near").await);
    let id = controller.computer(&here, "desk").await;
    let moved = async |workspace: &str| {
        controller.patch(&format!("/computers/{id}/move"), json!({"workspace_id": workspace})).await
    };
    let refused = moved(&there).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(
        refused.body["error"].as_str().is_some_and(|text| text.contains("one owner")),
        "{}",
        refused.body
    );
    assert_eq!(moved(&near).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_whose_plan_is_gone_keeps_what_it_has_and_gets_no_more() {
    let controller = Simulation::boot_configured(config()).await;
    let workspace = controller.workspace("demo").await;
    let id = controller.computer(&workspace, "one").await;
    controller.sql("UPDATE accounts SET plan = 'of last year'").await;
    let refused = create(&controller, controller.key(), json!({"name": "two"}), &workspace).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("CHANGE_PLAN")), "{}", refused.body);
    assert_eq!(controller.command(format!("/computers/{id}/stop")).await.status, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.command(format!("/computers/{id}/start")).await.status, 200);
    controller.until_status(&id, "running").await;
}
