//! Does a computer in storage go back to a snapshot that is on its host, also when its copy is lost and when its controller
//! ends on the way? And does anything else that was intended outlive an orderly end?

use std::sync::atomic::Ordering;

use hotdesk::engine::simulated::{Failure, Verb};
use serde_json::json;

use super::Vault;
use super::faults::LOST;
use crate::harness::agent::Answered;
use crate::suspension::refused;

/// More requests than anybody makes before a test allows them again.
const MANY: u32 = 1000;

impl Vault {
    /// A snapshot of the computer; its id.
    async fn kept(&self, memory: bool) -> String {
        let path = format!("/computers/{}/snapshots", self.scene.id);
        let made = self.scene.house.post(&path, json!({ "memory": memory })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["id"].as_str().expect("an id").to_owned()
    }

    async fn roll_back(&self, snapshot: &str) -> Answered {
        let path = format!("/computers/{}/rollback", self.scene.id);
        self.scene.house.post(&path, json!({ "snapshot_id": snapshot })).await
    }

    fn spoil_the_disk(&self) {
        std::fs::write(self.scene.house.disk(&self.scene.id).join("home/note"), "later").expect("a file");
    }

    async fn lose_everything(&self) {
        for name in self.store.names().await {
            self.store.remove(&name).await;
        }
        let asked = self.scene.ask("resume").await;
        refused(&asked, 503, Some("saved_state_unavailable"), LOST);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_in_storage_goes_back_to_a_snapshot_that_is_here() {
    for (memory, status) in [(false, "stopped"), (true, "suspended")] {
        let vault = Vault::evicting().await;
        let scene = &vault.scene;
        assert_eq!(scene.count().await, 1);
        let snapshot = vault.kept(memory).await;
        assert_eq!(scene.count().await, 2);
        vault.spoil_the_disk();
        vault.sleeps_in_storage().await;
        vault.lose_everything().await;
        // It fails first: nothing has changed.
        vault.plan(Verb::Rollback, Failure::Before(super::faults::broken()));
        let text = "Computer could not be rolled back";
        refused(&vault.roll_back(&snapshot).await, 500, Some("SNAPSHOT_FAILED"), text);
        scene.is("suspended").await;
        refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), LOST);

        let back = vault.roll_back(&snapshot).await;
        assert_eq!((back.status, &back.body["status"]), (200, &json!(status)), "{}", back.body);
        scene.is(status).await;
        if memory {
            // It is a computer that sleeps, as any other: copied, evicted and woken.
            vault.until_evicted().await;
        } else {
            vault.disk_is_as_it_was();
        }
        assert_eq!(scene.ask("start").await.status, 200);
        assert_eq!(scene.count().await, if memory { 2 } else { 1 });
        vault.disk_is_as_it_was();
        vault.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_in_storage_can_be_deleted() {
    let vault = Vault::evicting().await;
    let snapshot = vault.kept(true).await;
    vault.sleeps_in_storage().await;
    vault.lose_everything().await;
    let path = format!("/computers/{}", vault.scene.id);
    let removed = vault.scene.house.delete(&format!("{path}/snapshots/{snapshot}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let removed = vault.scene.house.delete(&path).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(vault.scene.house.machines(), [""; 0]);
    vault.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_goes_on_after_its_controller_ended_in_the_middle() {
    let mut vault = Vault::evicting().await;
    let snapshot = vault.kept(false).await;
    vault.spoil_the_disk();
    vault.sleeps_in_storage().await;
    vault.store.gets_hang.store(MANY, Ordering::SeqCst);
    vault.plan(Verb::Rollback, Failure::Never { done: false });
    let path = format!("/computers/{}/rollback", vault.scene.id);
    let request = vault.scene.house.request(reqwest::Method::POST, &path);
    let asked = async {
        drop(request.json(&json!({ "snapshot_id": snapshot })).send().await);
        std::future::pending::<()>().await;
    };
    let ends = async {
        vault.until("under way", || async { vault.scene.house.engine.stuck() == 1 }).await;
        vault.scene.house.end().await;
    };
    tokio::select! {
        () = asked => {}
        () = ends => {}
    }
    vault.scene.house.begin(&[]).await;
    vault.until_status("stopped").await;
    vault.disk_is_as_it_was();
    vault.store.gets_hang.store(0, Ordering::SeqCst);
    vault.until_empty().await;
    assert_eq!(vault.scene.ask("start").await.status, 200);
    assert_eq!(vault.scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_wake_go_on_after_their_controller_ended_in_the_middle() {
    for (verb, meanwhile, ends) in [
        ("stop", "stopping", "stopped"),
        ("restart", "restarting", "running"),
        ("start", "starting", "running"),
    ] {
        let mut vault = Vault::evicting().await;
        assert_eq!(vault.scene.count().await, 1);
        vault.sleeps_in_storage().await;
        vault.plan(Verb::WriteSaved, Failure::Never { done: false });
        assert_eq!(vault.scene.ask(verb).await.status, 200, "{verb}");
        vault.until("under way", || async { vault.scene.house.engine.stuck() == 1 }).await;
        vault.scene.is(meanwhile).await;
        vault.scene.house.end().await;
        vault.scene.house.begin(&[]).await;
        vault.until_status(ends).await;
        vault.disk_is_as_it_was();
        vault.until_empty().await;
        if verb == "stop" {
            assert_eq!(vault.scene.ask("start").await.status, 200);
        }
        let memory_is_kept = verb == "start";
        assert_eq!(vault.scene.count().await, if memory_is_kept { 2 } else { 1 }, "{verb}");
    }
}
