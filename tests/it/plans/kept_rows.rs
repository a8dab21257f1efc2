//! Do the bounds hold that only thousands of rows reach? The rows are inserted directly; the last ones come as they always do.
//! (threats.md T23)

use hotdesk::base::clock::now_ms;
use hotdesk::base::ids::ComputerId;
use serde_json::json;

use crate::harness::simulation::Simulation;

/// Removed clients of an account whose usage is kept (`store/usage`).
const MAX_PAST_CLIENTS: u32 = 10_000;
/// Earlier handles of a computer (`store/saved`).
const MAX_EARLIER: u32 = 400;

/// Inserts rows with `i` from 1 to `count` in their values.
async fn insert(house: &Simulation, count: u32, into: &str, values: &str) {
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})");
    house.sql(&format!("INSERT INTO {into} {numbers} SELECT {values} FROM n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_a_loop_of_clients_that_come_and_go_ends() {
    let house = Simulation::boot().await;
    let operator = house.store().await.operator().await.expect("the operator");
    let (into, now) = (
        "clients (id, account_id, external_id, name, billed_to, created_at, updated_at, removed_at)",
        now_ms(),
    );
    let values = format!("'past ' || i, '{operator}', 'past', 'past', 'operator', 1, {now}, {now}");
    insert(&house, MAX_PAST_CLIENTS - 1, into, &values).await;
    house.made("/v1/accounts", json!({"external_id": "last"})).await;
    insert(&house, 1, into, &values.replace("past ' || i", "one more'")).await;
    let refused = house.post("/v1/accounts", json!({"external_id": "more"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("CLIENT_LIMIT")), "{}", refused.body);
    let workspaces = house.get("/workspaces").await.body;
    assert_eq!(workspaces["workspaces"].as_array().map(Vec::len), Some(1), "nothing of it is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_of_the_earlier_handles_of_a_computer_makes_room() {
    let house = Simulation::boot().await;
    let home = house.workspace("home").await;
    let (id, other) = (house.computer(&home, "desk").await, house.computer(&home, "other").await);
    let handle = house.get(&format!("/computers/{id}")).await.body["instance_id"].clone();
    let into = "earlier_instances (instance_id, computer_id, ended_at)";
    insert(&house, MAX_EARLIER, into, &format!("printf('%08x', i), '{id}', i")).await;
    insert(&house, 1, into, &format!("'ffffffff', '{other}', 1")).await;
    let computer: ComputerId = id.parse().expect("an id");
    house.store().await.begin_wake_from_storage(computer).await.expect("it is stored");
    let leads_to = async |handle: &str| house.get(&format!("/computers/{handle}")).await.body["id"].clone();
    assert_eq!(leads_to("00000001").await, json!(null), "the oldest");
    for kept in ["00000002", "00000190", handle.as_str().expect("a handle")] {
        assert_eq!(leads_to(kept).await, json!(id), "{kept}");
    }
    assert_eq!(leads_to("ffffffff").await, json!(other), "another's is not meant");
}
