//! Timelines of real computers: a killed agent, a stop, a controller that starts again, and a rollback over
//! gVisor.

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::{TIMEOUT, entries, go_back, places};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Clicks until the agent does it: it may be starting.
async fn click(controller: &RunningController, id: &str, x: u32) {
    let clicked = wait::until(TIMEOUT, || async {
        (controller.act(id, "click", json!({"x": x, "y": 5})).await.status == 200).then_some(())
    });
    clicked.await.expect("a click");
}

/// Waits until the newest entries are at these positions.
async fn until_places(controller: &RunningController, id: &str, expected: &[i64]) -> Vec<Value> {
    let found = wait::until(TIMEOUT, || async {
        let found = entries(controller, id, "").await;
        places(&found).starts_with(expected).then_some(found)
    });
    match found.await {
        Some(found) => found,
        None => panic!("{:?} and not {expected:?}", entries(controller, id, "").await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_outlives_a_killed_agent_a_stop_and_the_controller() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    click(&controller, &id, 11).await;
    let first = until_places(&controller, &id, &[11]).await;
    assert_eq!(first[0]["by"]["kind"], "key");
    assert!(first[0]["by"]["name"].is_string(), "{}", first[0]);
    controller.act(&id, "bash", json!({"command": "kill -9 $(pgrep -P 1 -f '^hotdesk agent')"})).await;
    click(&controller, &id, 22).await;
    until_places(&controller, &id, &[22, 11]).await;
    controller.kill();
    controller.start_again().await;
    click(&controller, &id, 33).await;
    // Stopped at once: the entry is fetched before the end.
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    let found = entries(&controller, &id, "").await;
    let mut seen = places(&found);
    // A click whose answer was lost with the agent may be there twice.
    seen.dedup();
    assert_eq!(seen, [33, 22, 11], "{found:?}");
    assert!(found.iter().all(|entry| entry["screen"] == "default"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_goes_back_to_before_a_step() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("w").await;
    let id = id_of(&controller.computer(&workspace, "desk").await);
    click(&controller, &id, 11).await;
    controller.bash(&id, "echo before > /root/note").await;
    let made = controller.post(&format!("/computers/{id}/snapshots"), json!({"memory": true})).await;
    assert!([201, 202].contains(&made.status), "{}", made.body);
    let snapshot = id_of(&made.body);
    let ready = wait::until(TIMEOUT, || async {
        let found = controller.get(&format!("/computers/{id}/snapshots/{snapshot}")).await.body;
        (found["state"] == "ready").then_some(())
    });
    ready.await.expect("a snapshot");
    click(&controller, &id, 22).await;
    controller.bash(&id, "echo after > /root/note").await;
    let found = until_places(&controller, &id, &[22]).await;
    let step = &found[0];
    assert_eq!(step["snapshot_id"], json!(snapshot), "{step}");
    let back = go_back(&controller, &id, step).await;
    assert!([200, 202].contains(&back.status), "{}", back.body);
    assert_eq!(back.body["snapshot_id"], json!(snapshot));
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "cat /root/note").await, "before\n");
    // The entries stay, those in the restored memory are not told again, and numbers begin again.
    click(&controller, &id, 33).await;
    let found = until_places(&controller, &id, &[33, 22]).await;
    let of_first = places(&found).iter().filter(|x| **x == 11).count();
    assert_eq!((places(&found).iter().filter(|x| **x == 22).count(), of_first >= 1), (1, true), "{found:?}");
}
