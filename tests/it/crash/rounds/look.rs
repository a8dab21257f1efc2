//! What is there once a controller has come up again?

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::desk::Desk;
use crate::harness::controller::RunningController;

/// Until every computer is at rest after a start: boots of a few desktops on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// What a computer keeps on its disk and in its memory, a line each.
const READ: &str = "cat /root/note 2>/dev/null || echo; cat /dev/shm/mark 2>/dev/null || echo";
/// Where a computer can be left.
pub const AT_REST: [&str; 4] = ["running", "stopped", "suspended", "error"];

/// The records of all computers.
pub async fn around(house: &RunningController) -> Vec<Value> {
    house.get("/computers").await.body["computers"].as_array().expect("a list").clone()
}

/// A computer that is at rest, with what is in it where it runs. What is being adopted reads as it was until it is looked at.
pub async fn at(house: &RunningController, id: &str) -> Desk {
    let seen = wait::until(PATIENCE, || async {
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
