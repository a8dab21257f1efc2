//! State of a controller's computers after a restart.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::domain::computer::snapshot::SnapshotState;
use hotdesk::store::Store;
use serde_json::{Value, json};

use super::super::remains::Row;
use super::model::ComputerModel;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// Longest time until every computer has settled after a start: boots of some desktops on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(90);
/// Prints a computer's disk content and memory content, one line each.
const READ_CONTENTS: &str = "cat /root/note 2>/dev/null || echo; cat /dev/shm/mark 2>/dev/null || echo";
/// States in which a computer can remain.
pub const SETTLED: [&str; 4] = ["running", "stopped", "suspended", "error"];

/// Records of all computers.
pub async fn records(controller: &RunningController) -> Vec<Value> {
    controller.get("/computers").await.body["computers"].as_array().expect("a list").clone()
}

/// Ids and statuses of all computers.
pub async fn rows(controller: &RunningController) -> Vec<Row> {
    let row = |record: &Value| (id_of(record), record["status"].as_str().expect("a status").to_owned());
    records(controller).await.iter().map(row).collect()
}

/// Waits until every row has settled and has no pending work, which only the store shows.
pub async fn wait_until_settled(controller: &RunningController) {
    let store = Store::open(&controller.store_file()).await.expect("a second connection opens");
    let wait_until_settled = wait::until(TIMEOUT, || async {
        let rows = store.all_computers().await.expect("rows");
        for row in &rows {
            let status = row.status.name();
            // A failed wake is repeated with the token that the saved memory holds.
            let token_used = row.saved_token.is_none() || status == "suspended";
            let snapshots = store.snapshots(row.id).await.expect("rows");
            let ready = snapshots.iter().all(|snapshot| snapshot.state == SnapshotState::Ready);
            if !SETTLED.contains(&status) || row.wanted.is_some() || !token_used || !ready {
                return None;
            }
        }
        Some(())
    });
    let wait_until_settled = wait_until_settled.await.is_some();
    // An open store would keep a disk without power in use.
    store.close().await;
    assert!(wait_until_settled, "not settled: {:?}", rows(controller).await);
}

/// Waits until a computer has settled; returns it with its contents if it runs. During adoption the status is
/// that of before.
pub async fn read(controller: &RunningController, id: &str) -> ComputerModel {
    let settled = wait::until(TIMEOUT, || async {
        let mut model = ComputerModel::from_record(&controller.get(&format!("/computers/{id}")).await.body);
        if model.status != "running" {
            return SETTLED.contains(&&*model.status).then_some(model);
        }
        let answer =
            controller.post(&format!("/computers/{id}/bash"), json!({ "command": READ_CONTENTS })).await;
        if answer.status != 200 {
            return None;
        }
        let text = answer.body["output"].as_str().expect("output").to_owned();
        let mut lines = text.lines().map(|line| line.parse().ok());
        (model.note, model.mark) = (lines.next().expect("a line"), lines.next().expect("a line"));
        Some(model)
    });
    settled.await.unwrap_or_else(|| panic!("{id} must settle"))
}
