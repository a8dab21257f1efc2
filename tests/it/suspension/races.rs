//! Concurrent requests to a computer during its suspend.

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::engine::simulated::Verb;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Scene, hold_next};
use crate::harness::agent::HttpAnswer;

/// Time in which a request usually waits for its turn. What comes later is answered alike.
const QUEUE_TIME: Duration = Duration::from_millis(300);

/// Sends a request while the computer is held in its suspend, and lets that go on.
async fn ask_during_suspend(scene: &Scene, verb: &str, held: &CancellationToken) -> HttpAnswer {
    scene.controller.until_status(&scene.id, "suspending").await;
    let release = async {
        tokio::time::sleep(QUEUE_TIME).await;
        held.cancel();
    };
    let (answer, ()) = tokio::join!(scene.ask(verb), release);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn of_suspends_at_once_one_is_done_and_all_are_told() {
    let scene = Scene::boot().await;
    let answers = join_all([0; 6].map(|_| scene.ask("suspend"))).await;
    for answer in &answers {
        let expected = [(200, "suspended"), (202, "suspending")];
        let outcome = (answer.status, answer.body["status"].as_str().expect("a status"));
        assert!(expected.contains(&outcome), "{}", answer.body);
    }
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert_eq!(scene.controller.engine.calls(Verb::Suspend), 1);

    assert_eq!(scene.ask("resume").await.status, 200);
    let held = hold_next(&scene, Verb::Suspend);
    let again = async {
        scene.controller.until_status(&scene.id, "suspending").await;
        assert_eq!(scene.read("/suspension").await.body, json!({"status": "suspending"}));
        let again = scene.ask("suspend").await;
        assert_eq!((again.status, again.body), (202, json!({"success": true, "status": "suspending"})));
        held.cancel();
    };
    let (first, ()) = tokio::join!(scene.ask("suspend"), again);
    assert_eq!((first.status, &first.body["status"]), (200, &json!("suspended")));
    assert_eq!(scene.controller.engine.calls(Verb::Suspend), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_falls_asleep_wakes_stops_or_goes_in_its_turn() {
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    for verb in ["resume", "ensure-running"] {
        let held = hold_next(&scene, Verb::Suspend);
        let wake = ask_during_suspend(&scene, verb, &held);
        let (suspended, resumed) = tokio::join!(scene.ask("suspend"), wake);
        assert_eq!(
            (suspended.status, resumed.status, &resumed.body["status"]),
            (200, 200, &json!("running"))
        );
    }
    assert_eq!(scene.count().await, 2);
    let held = hold_next(&scene, Verb::Suspend);
    let act = async {
        scene.controller.until_status(&scene.id, "suspending").await;
        let release = async {
            tokio::time::sleep(QUEUE_TIME).await;
            held.cancel();
        };
        tokio::join!(scene.count(), release).0
    };
    let (_, counted) = tokio::join!(scene.ask("suspend"), act);
    assert_eq!(counted, 3);

    let held = hold_next(&scene, Verb::Suspend);
    let stop = ask_during_suspend(&scene, "stop", &held);
    let (suspended, stopped) = tokio::join!(scene.ask("suspend"), stop);
    assert_eq!((suspended.status, stopped.status), (200, 200));
    scene.controller.until_status(&scene.id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_wins_over_suspend_and_resume() {
    for (verb, slow) in [("suspend", Verb::Suspend), ("resume", Verb::Resume), ("suspend", Verb::Destroy)] {
        let scene = Scene::boot().await;
        if verb == "resume" {
            scene.suspend().await;
        }
        let held = hold_next(&scene, slow);
        let path = format!("/computers/{}", scene.id);
        // One after the other: the verb, the delete, and the end of the step.
        let delete = async {
            tokio::time::sleep(QUEUE_TIME).await;
            scene.controller.delete(&path).await
        };
        let release = async {
            tokio::time::sleep(2 * QUEUE_TIME).await;
            held.cancel();
        };
        let (answer, removed, ()) = tokio::join!(scene.ask(verb), delete, release);
        let name = format!("{verb}, slow {slow:?}: {} {}", answer.status, answer.body);
        assert!([200, 404, 409].contains(&answer.status), "{name}");
        assert_eq!((removed.status, removed.body), (200, json!({"success": true})), "{name}");
        assert_eq!(scene.controller.get(&path).await.status, 404, "{name}");
        assert_eq!(scene.controller.machines(), [""; 0], "{name}");
    }
    // The two requests start at the same moment.
    for _ in 0..5 {
        let scene = Scene::boot().await;
        let path = format!("/computers/{}", scene.id);
        let (answer, removed) = tokio::join!(scene.ask("suspend"), scene.controller.delete(&path));
        assert!([200, 404, 409].contains(&answer.status), "{} {}", answer.status, answer.body);
        assert_eq!(removed.status, 200, "{}", removed.body);
        assert_eq!(scene.controller.machines(), [""; 0]);
    }
}
