//! Hosts of computers that do not answer, replicas on a second host, and hosts that are gone, over simulated machines.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::{FIRST_HOST, SECOND_HOST};
use serde_json::{Value, json};

use crate::harness::simulation::Simulation;

/// Longest time until a record shows what a background task does every few seconds, on a busy machine.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the record of a computer is as expected, and returns it.
async fn record_until(controller: &Simulation, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let found = wait::until(NOTICE_TIMEOUT, || async {
        let record = controller.get(&format!("/computers/{id}")).await.body;
        is_so(&record).then_some(record)
    });
    match found.await {
        Some(record) => record,
        None => panic!("{}", controller.get(&format!("/computers/{id}")).await.body),
    }
}

async fn confirm_gone(controller: &Simulation, host: &str) -> (u16, Value) {
    let body = json!({ "confirm": host });
    let answer = controller.post(&format!("/operator/hosts/{host}/gone"), body).await;
    (answer.status, answer.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_says_that_the_host_does_not_answer_and_returns_by_itself() {
    let mut controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let id = controller.computer(&home, "desk").await;
    controller.host.cut();
    let record = record_until(&controller, &id, |it| it["status_reason"] == "host_unreachable").await;
    assert_eq!(record["status"], "running");
    let message = record["status_message"].as_str().expect("a message").to_owned();
    assert!(message.contains(FIRST_HOST) && message.contains("may still run"), "{message}");
    for verb in ["stop", "restart", "suspend"] {
        let refused = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (503, &json!("host_unreachable")),
            "{verb}: {}",
            refused.body
        );
    }
    let refused = controller.delete(&format!("/computers/{id}")).await;
    assert_eq!(refused.status, 503, "{}", refused.body);

    // A controller that starts meanwhile waits for the host, and adopts the machine without a restart.
    controller.restart().await;
    let record = record_until(&controller, &id, |it| it["status_message"].is_string()).await;
    assert_eq!(record["status"], "running", "nobody knows that it has ended");
    controller.host.heal();
    let record = record_until(&controller, &id, |it| it["status_message"].is_null()).await;
    assert_eq!((&record["status"], &record["status_reason"]), (&json!("running"), &Value::Null));
    let used = controller.get(&format!("/computers/{id}/readiness")).await;
    assert_eq!(used.status, 200, "it is adopted: {}", used.body);
    assert_eq!(controller.post(&format!("/computers/{id}/stop"), json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_of_a_host_that_is_gone_begins_from_its_replica() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let (id, alone) = (controller.computer(&home, "desk").await, controller.computer(&home, "alone").await);
    std::fs::write(controller.disk(&id).join("note"), "early").expect("a file on the disk");
    let path = format!("/computers/{id}");
    let changed = controller.patch(&path, json!({"replicate": {"interval_minutes": 60}})).await;
    assert_eq!(changed.body["replicate"], json!({"interval_minutes": 60}), "{}", changed.body);
    let replica = record_until(&controller, &id, |it| it["replica"].is_object()).await["replica"].clone();
    assert_eq!(replica["host"], SECOND_HOST);
    std::fs::write(controller.disk(&id).join("note"), "late").expect("a file on the disk");

    // Only a host that its cluster counts as offline can be gone.
    for (host, status, code) in [(FIRST_HOST, 409, json!("host_not_offline")), ("other", 404, Value::Null)] {
        let (answered, body) = confirm_gone(&controller, host).await;
        assert_eq!((answered, &body["code"]), (status, &code), "{host}: {body}");
    }
    controller.host.cut();
    let start = controller.post(&format!("{path}/restart"), json!({})).await;
    assert_eq!(start.status, 503, "it may still run: {}", start.body);
    let wrong =
        controller.post(&format!("/operator/hosts/{FIRST_HOST}/gone"), json!({"confirm": SECOND_HOST})).await;
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    let (status, gone) = confirm_gone(&controller, FIRST_HOST).await;
    assert_eq!((status, &gone["computers"], &gone["with_replica"]), (200, &json!(2), &json!(1)), "{gone}");

    let record = record_until(&controller, &alone, |it| it["status"] == "stopped").await;
    assert_eq!(record["status_reason"], "host_gone");
    assert!(
        record["status_message"].as_str().is_some_and(|it| it.contains("waits for its host")),
        "{record}"
    );
    let refused = controller.post(&format!("/computers/{alone}/start"), json!({})).await;
    assert_eq!(refused.body["code"], "host_unreachable", "{}", refused.body);

    record_until(&controller, &id, |it| it["status"] == "stopped").await;
    let started = controller.post(&format!("{path}/start"), json!({})).await;
    assert_eq!(started.status, 200, "{}", started.body);
    controller.until_status(&id, "running").await;
    let record = controller.get(&path).await.body;
    assert_eq!(record["recovered"], json!({"from": FIRST_HOST, "state_at": replica["refreshed_at"]}));
    assert!(record["status_message"].is_null(), "{record}");
    let note = std::fs::read_to_string(controller.disk(&id).join("note")).expect("the file");
    assert_eq!(note, "early", "the replica has the state of its last refresh");

    // The host of the other returns: it is adopted, and the host is not gone any more.
    controller.host.heal();
    record_until(&controller, &alone, |it| it["status"] == "running").await;
    let store = controller.store().await;
    let forgotten = wait::until(NOTICE_TIMEOUT, || async {
        store.gone_hosts().await.expect("the store").is_empty().then_some(())
    });
    assert!(forgotten.await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_goes_with_the_wish_for_it_and_needs_an_engine_that_can() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let body = json!({"workspace_id": home, "name": "desk", "replicate": {"interval_minutes": 5}});
    let made = controller.create("/computers", body).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    record_until(&controller, &id, |it| it["replica"].is_object()).await;
    let path = format!("/computers/{id}");
    for minutes in [-1, 10_081] {
        let refused = controller.patch(&path, json!({"replicate": {"interval_minutes": minutes}})).await;
        assert_eq!(refused.status, 400, "{minutes}: {}", refused.body);
    }
    let off = controller.patch(&path, json!({"replicate": {"interval_minutes": 0}})).await;
    assert!(off.body.get("replicate").is_none(), "{}", off.body);
    record_until(&controller, &id, |it| it.get("replica").is_none()).await;

    let limited = Simulation::boot_with_capabilities(Capabilities::default()).await;
    let home = limited.workspace("home").await;
    let body = json!({"workspace_id": home, "name": "desk", "replicate": {"interval_minutes": 5}});
    let refused = limited.post("/computers", body).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
}
