//! Limits that only thousands of rows reach: T23 (docs/security.md). Most rows are inserted directly; the
//! last ones come through the API.

use hotdesk::base::clock;
use hotdesk::base::ids::ComputerId;
use serde_json::json;

use crate::harness::simulation::Simulation;

/// Limit of an account's removed clients whose usage is stored (`store/usage`).
const MAX_PAST_CLIENTS: u32 = 10_000;
/// Limit of a computer's earlier handles (`store/saved`).
const MAX_EARLIER: u32 = 400;

/// Inserts rows whose values contain `i` from 1 to `count`.
async fn insert(controller: &Simulation, count: u32, into: &str, values: &str) {
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})");
    controller.sql(&format!("INSERT INTO {into} {numbers} SELECT {values} FROM n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_a_loop_of_clients_that_come_and_go_ends() {
    let controller = Simulation::boot().await;
    let operator = controller.store().await.operator_account().await.expect("the operator");
    let (into, now) = (
        "clients (id, account_id, external_id, name, billed_to, created_at, updated_at, removed_at)",
        clock::now().as_i64(),
    );
    let values = format!("'past ' || i, '{operator}', 'past', 'past', 'operator', 1, {now}, {now}");
    insert(&controller, MAX_PAST_CLIENTS - 1, into, &values).await;
    controller.create("/v1/accounts", json!({"external_id": "last"})).await;
    insert(&controller, 1, into, &values.replace("past ' || i", "one more'")).await;
    let refused = controller.post("/v1/accounts", json!({"external_id": "more"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("CLIENT_LIMIT")), "{}", refused.body);
    let workspaces = controller.get("/workspaces").await.body;
    assert_eq!(
        workspaces["workspaces"].as_array().map(Vec::len),
        Some(1),
        "a refused client must leave no workspace"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_of_the_earlier_handles_of_a_computer_makes_room() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let (id, other) = (controller.computer(&home, "desk").await, controller.computer(&home, "other").await);
    let handle = controller.get(&format!("/computers/{id}")).await.body["instance_id"].clone();
    let into = "earlier_instances (instance_id, computer_id, ended_at)";
    insert(&controller, MAX_EARLIER, into, &format!("printf('%08x', i), '{id}', i")).await;
    insert(&controller, 1, into, &format!("'ffffffff', '{other}', 1")).await;
    let computer: ComputerId = id.parse().expect("an id");
    controller.store().await.begin_wake_from_storage(computer).await.expect("a stored wake");
    let resolve =
        async |handle: &str| controller.get(&format!("/computers/{handle}")).await.body["id"].clone();
    assert_eq!(resolve("00000001").await, json!(null), "the oldest handle is removed");
    for kept in ["00000002", "00000190", handle.as_str().expect("a handle")] {
        assert_eq!(resolve(kept).await, json!(id), "{kept}");
    }
    assert_eq!(resolve("ffffffff").await, json!(other), "another computer's handle stays");
}
