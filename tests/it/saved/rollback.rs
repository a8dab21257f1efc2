//! Rollback of a computer in storage to a snapshot on its host: also when its copy is lost, and when its
//! controller ends meanwhile. Other intents survive an orderly end, too.

use std::sync::atomic::Ordering;

use hotdesk::engine::simulated::{Failure, Verb};
use serde_json::json;

use super::StorageScene;
use super::faults::LOST;
use crate::harness::agent::HttpAnswer;
use crate::suspension::assert_refused;

/// More requests than a test makes until it resets the fault.
const ALWAYS: u32 = 1000;

impl StorageScene {
    /// Creates a snapshot of the computer and returns its id.
    async fn create_snapshot(&self, memory: bool) -> String {
        let path = format!("/computers/{}/snapshots", self.scene.id);
        let created = self.scene.controller.post(&path, json!({ "memory": memory })).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body["id"].as_str().expect("an id").to_owned()
    }

    async fn roll_back(&self, snapshot: &str) -> HttpAnswer {
        let path = format!("/computers/{}/rollback", self.scene.id);
        self.scene.controller.post(&path, json!({ "snapshot_id": snapshot })).await
    }

    fn change_disk(&self) {
        std::fs::write(self.scene.controller.disk(&self.scene.id).join("home/note"), "later")
            .expect("a file");
    }

    async fn delete_objects(&self) {
        for name in self.store.names().await {
            self.store.remove(&name).await;
        }
        let resumed = self.scene.ask("resume").await;
        assert_refused(&resumed, 503, Some("saved_state_unavailable"), LOST);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_in_storage_goes_back_to_a_snapshot_that_is_here() {
    for (memory, status) in [(false, "stopped"), (true, "suspended")] {
        let storage = StorageScene::boot_evicting().await;
        let scene = &storage.scene;
        assert_eq!(scene.count().await, 1);
        let snapshot = storage.create_snapshot(memory).await;
        assert_eq!(scene.count().await, 2);
        storage.change_disk();
        storage.suspend_and_evict().await;
        storage.delete_objects().await;
        // A failed rollback changes nothing.
        storage.plan(Verb::Rollback, Failure::Before(super::faults::broken()));
        let text = "Computer could not be rolled back";
        assert_refused(&storage.roll_back(&snapshot).await, 500, Some("SNAPSHOT_FAILED"), text);
        scene.assert_status("suspended").await;
        assert_refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), LOST);

        let back = storage.roll_back(&snapshot).await;
        assert_eq!((back.status, &back.body["status"]), (200, &json!(status)), "{}", back.body);
        scene.assert_status(status).await;
        if memory {
            // The result is a suspended computer like any other: it is copied, evicted and resumed.
            storage.until_evicted().await;
        } else {
            storage.assert_disk_unchanged();
        }
        assert_eq!(scene.ask("start").await.status, 200);
        assert_eq!(scene.count().await, if memory { 2 } else { 1 });
        storage.assert_disk_unchanged();
        storage.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_in_storage_can_be_deleted() {
    let storage = StorageScene::boot_evicting().await;
    let snapshot = storage.create_snapshot(true).await;
    storage.suspend_and_evict().await;
    storage.delete_objects().await;
    let path = format!("/computers/{}", storage.scene.id);
    let removed = storage.scene.controller.delete(&format!("{path}/snapshots/{snapshot}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let removed = storage.scene.controller.delete(&path).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(storage.scene.controller.machines(), [""; 0]);
    storage.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_goes_on_after_its_controller_ended_in_the_middle() {
    let mut storage = StorageScene::boot_evicting().await;
    let snapshot = storage.create_snapshot(false).await;
    storage.change_disk();
    storage.suspend_and_evict().await;
    storage.store.gets_hang.store(ALWAYS, Ordering::SeqCst);
    storage.plan(Verb::Rollback, Failure::Never { done: false });
    let path = format!("/computers/{}/rollback", storage.scene.id);
    let request = storage.scene.controller.request(reqwest::Method::POST, &path);
    let roll_back = async {
        drop(request.json(&json!({ "snapshot_id": snapshot })).send().await);
        std::future::pending::<()>().await;
    };
    let end = async {
        storage
            .until("the rollback has started", || async { storage.scene.controller.engine.stuck() == 1 })
            .await;
        storage.scene.controller.end().await;
    };
    tokio::select! {
        () = roll_back => {}
        () = end => {}
    }
    storage.scene.controller.begin(&[]).await;
    storage.until_status("stopped").await;
    storage.assert_disk_unchanged();
    storage.store.gets_hang.store(0, Ordering::SeqCst);
    storage.until_empty().await;
    assert_eq!(storage.scene.ask("start").await.status, 200);
    assert_eq!(storage.scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_wake_go_on_after_their_controller_ended_in_the_middle() {
    for (verb, during, after) in [
        ("stop", "stopping", "stopped"),
        ("restart", "restarting", "running"),
        ("start", "starting", "running"),
    ] {
        let mut storage = StorageScene::boot_evicting().await;
        assert_eq!(storage.scene.count().await, 1);
        storage.suspend_and_evict().await;
        storage.plan(Verb::WriteSaved, Failure::Never { done: false });
        assert_eq!(storage.scene.ask(verb).await.status, 200, "{verb}");
        storage
            .until("the fetch has started", || async { storage.scene.controller.engine.stuck() == 1 })
            .await;
        storage.scene.assert_status(during).await;
        storage.scene.controller.end().await;
        storage.scene.controller.begin(&[]).await;
        storage.until_status(after).await;
        storage.assert_disk_unchanged();
        storage.until_empty().await;
        if verb == "stop" {
            assert_eq!(storage.scene.ask("start").await.status, 200);
        }
        let has_memory = verb == "start";
        assert_eq!(storage.scene.count().await, if has_memory { 2 } else { 1 }, "{verb}");
    }
}
