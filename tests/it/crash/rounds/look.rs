//! What is there once a controller has come up again?

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::domain::snapshot::State;
use hotdesk::store::Store;
use serde_json::{Value, json};

use super::super::remains::Row;
use super::desk::Desk;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;

/// Until every computer is at rest after a start: boots of a few desktops on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(90);
/// What a computer keeps on its disk and in its memory, a line each.
const READ: &str = "cat /root/note 2>/dev/null || echo; cat /dev/shm/mark 2>/dev/null || echo";
/// Where a computer can be left.
pub const AT_REST: [&str; 4] = ["running", "stopped", "suspended", "error"];

/// The records of all computers.
pub async fn around(house: &RunningController) -> Vec<Value> {
    house.get("/computers").await.body["computers"].as_array().expect("a list").clone()
}

/// The computers with their statuses.
pub async fn rows(house: &RunningController) -> Vec<Row> {
    let row = |record: &Value| (id_of(record), record["status"].as_str().expect("a status").to_owned());
    around(house).await.iter().map(row).collect()
}

/// Waits until every row is at rest and none waits for something, which is seen in the store alone.
pub async fn rested(house: &RunningController) {
    let store = Store::open(&house.data_dir().join("hotdesk.db")).await.expect("it opens twice");
    let rested = wait::until(TIMEOUT, || async {
        let rows = store.all_computers().await.expect("rows");
        for row in &rows {
            let status = row.status.name();
            // A wake that failed is tried again with the token that the memory knows.
            let renewed = row.saved_token.is_none() || status == "suspended";
            let kept = store.snapshots(row.id).await.expect("rows");
            let ready = kept.iter().all(|snapshot| snapshot.state == State::Ready);
            if !AT_REST.contains(&status) || row.wanted.is_some() || !renewed || !ready {
                return None;
            }
        }
        Some(())
    });
    let rested = rested.await.is_some();
    // What is open would keep a disk that lost its power in use.
    store.close().await;
    assert!(rested, "not at rest: {:?}", rows(house).await);
}

/// A computer that is at rest, with what is in it where it runs. What is being adopted reads as it was until it is looked at.
pub async fn at(house: &RunningController, id: &str) -> Desk {
    let seen = wait::until(TIMEOUT, || async {
        let mut desk = Desk::of(&house.get(&format!("/computers/{id}")).await.body);
        if desk.status != "running" {
            return AT_REST.contains(&&*desk.status).then_some(desk);
        }
        let read = house.post(&format!("/computers/{id}/bash"), json!({ "command": READ })).await;
        if read.status != 200 {
            return None;
        }
        let text = read.body["output"].as_str().expect("output").to_owned();
        let mut lines = text.lines().map(|line| line.parse().ok());
        (desk.note, desk.mark) = (lines.next().expect("a line"), lines.next().expect("a line"));
        Some(desk)
    });
    seen.await.unwrap_or_else(|| panic!("{id} comes to no rest"))
}
