//! What do creates and deletes that come at once, or whose client goes away, leave? (threats.md T18, T23)

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::json;

use crate::harness::controller::{RunningController, no_computers_here};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_creates_for_one_name_or_the_last_slot_one_wins() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_with("[limits]\nmax_computers = 2\n").await;
    let workspace = house.workspace("demo").await;
    let same = ["race", "RACE", " race", "Race", "race "];
    let asked = same.map(|name| house.post("/computers", json!({"workspace_id": workspace, "name": name})));
    let answers = join_all(asked).await;
    let won: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.status == 201 || answer.body["code"] == "NAME_TAKEN"),
        "{answers:?}"
    );
    assert_eq!(house.machines(), [won[0].body["id"].as_str().unwrap()]);

    let names = ["a", "b", "c", "d"];
    let asked = names.map(|name| house.post("/computers", json!({"workspace_id": workspace, "name": name})));
    let answers = join_all(asked).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(
        answers.iter().filter(|answer| answer.body["code"] == "DESKTOP_LIMIT").count(),
        3,
        "{answers:?}"
    );
    assert_eq!(house.machines().len(), 2);

    // Deleted from all sides, it goes once; whoever comes late hears that it is not there.
    let id = won[0].body["id"].as_str().unwrap();
    let path = format!("/computers/{id}");
    let answers = join_all([0; 6].map(|_| house.delete(&path))).await;
    assert!(answers.iter().any(|answer| answer.status == 200), "{answers:?}");
    for answer in &answers {
        assert!([200, 404].contains(&answer.status), "{} {}", answer.status, answer.body);
    }
    assert_eq!(house.machines().len(), 1);
}

/// A create whose client hangs up is carried out or undone, never left half done and never without a runner.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_leaves_no_half_computer() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    for attempt in 0..10_u64 {
        let order = json!({"workspace_id": workspace, "name": format!("gone {attempt}"), "disk_size_gb": 1});
        let create = house.post("/computers", order);
        // From before the row is stored until well into the boot.
        let patience = Duration::from_millis(1 + attempt * attempt / 2);
        let _hung_up = tokio::time::timeout(patience, create).await;
    }
    // Up to ten boots, on a busy machine.
    let settled = wait::until(Duration::from_secs(180), || async {
        let listed = house.get("/computers").await.body;
        let all = listed["computers"].as_array().unwrap().clone();
        all.iter().all(|one| one["status"] == "running").then_some(all)
    });
    let left = settled.await.expect("every computer that was begun becomes usable");
    assert_eq!(house.machines().len(), left.len());
    if let Some(one) = left.first() {
        assert_eq!(house.bash(one["id"].as_str().unwrap(), "echo usable").await, "usable\n");
    }
}
