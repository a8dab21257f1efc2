//! Timelines of actions on screens (docs/api/timeline.md). `tests/it/display/timeline.rs` has real screens.

mod computers;
mod rules;

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::caller::Caller;

/// Longest time of a fetch in the background, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The entries of a computer's timeline, newest first.
pub async fn entries(caller: &Caller, computer: &str, query: &str) -> Vec<Value> {
    let answer = caller.get(&format!("/computers/{computer}/timeline?{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["entries"].as_array().expect("a list").clone()
}

/// The X positions of entries.
fn places(entries: &[Value]) -> Vec<i64> {
    // Attempts while a screen starts are in the timeline as failures.
    entries.iter().filter(|entry| entry["success"] == true).filter_map(|entry| entry["x"].as_i64()).collect()
}

async fn go_back(caller: &Caller, computer: &str, entry: &Value) -> crate::harness::caller::HttpAnswer {
    let id = entry["id"].as_str().expect("an id");
    caller.post(&format!("/computers/{computer}/timeline/{id}/go_back"), json!({})).await
}
