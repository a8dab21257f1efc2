//! Concurrent creates and deletes, and clients that disconnect during a create (T18, T23, docs/security.md).

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::json;

use crate::harness::controller::{RunningController, skip_reason};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_creates_for_one_name_or_the_last_slot_one_wins() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_with("[limits]\nmax_computers = 2\n").await;
    let workspace = controller.workspace("demo").await;
    let same = ["race", "RACE", " race", "Race", "race "];
    let creates =
        same.map(|name| controller.post("/computers", json!({"workspace_id": workspace, "name": name})));
    let answers = join_all(creates).await;
    let winners: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.status == 201 || answer.body["code"] == "NAME_TAKEN"),
        "{answers:?}"
    );
    assert_eq!(controller.machines(), [winners[0].body["id"].as_str().unwrap()]);

    let names = ["a", "b", "c", "d"];
    let creates =
        names.map(|name| controller.post("/computers", json!({"workspace_id": workspace, "name": name})));
    let answers = join_all(creates).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(
        answers.iter().filter(|answer| answer.body["code"] == "DESKTOP_LIMIT").count(),
        3,
        "{answers:?}"
    );
    assert_eq!(controller.machines().len(), 2);

    // Of concurrent deletes one succeeds, and later ones get a 404.
    let id = winners[0].body["id"].as_str().unwrap();
    let path = format!("/computers/{id}");
    let answers = join_all([0; 6].map(|_| controller.delete(&path))).await;
    assert!(answers.iter().any(|answer| answer.status == 200), "{answers:?}");
    for answer in &answers {
        assert!([200, 404].contains(&answer.status), "{} {}", answer.status, answer.body);
    }
    assert_eq!(controller.machines().len(), 1);
}

/// A create whose client disconnects is completed or undone. It never leaves a partial row or a computer
/// without a runner.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_leaves_no_half_computer() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    for attempt in 0..10_u64 {
        let body = json!({"workspace_id": workspace, "name": format!("gone {attempt}"), "disk_size_gb": 1});
        let create = controller.post("/computers", body);
        // From before the row is stored until well into the boot.
        let timeout = Duration::from_millis(1 + attempt * attempt / 2);
        let _hung_up = tokio::time::timeout(timeout, create).await;
    }
    // Up to ten boots on a busy machine.
    let settled = wait::until(Duration::from_secs(180), || async {
        let listed = controller.get("/computers").await.body;
        let all = listed["computers"].as_array().unwrap().clone();
        all.iter().all(|one| one["status"] == "running").then_some(all)
    });
    let left = settled.await.expect("every started create must end in a usable computer");
    assert_eq!(controller.machines().len(), left.len());
    if let Some(one) = left.first() {
        assert_eq!(controller.bash(one["id"].as_str().unwrap(), "echo usable").await, "usable\n");
    }
}
