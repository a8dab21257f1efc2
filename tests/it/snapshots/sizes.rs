//! Sizes after a rollback: with memory, the size of the snapshot if the account's quota allows it; without
//! memory, the current size. The reserved amount is exact at every moment.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::Limits;
use hotdesk::engine::simulated::{Failure, Verb};
use serde_json::{Value, json};

use super::failures::{broken, fail_next};
use crate::harness::agent::HttpAnswer;
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, assert_refused, hold_next};

impl Scene {
    async fn resize(&self, to: Value) {
        self.controller.until_status(&self.id, "running").await;
        let answer = self.controller.post(&format!("/computers/{}/resize", self.id), to).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// The size of the row. Asserts that the machine has it, too.
    async fn size(&self) -> (f64, u32, u32) {
        let row = self.row().await;
        let machine = self.controller.size(&self.id);
        let size = row.hardware;
        assert_eq!((machine.cpu, machine.memory_bytes >> 30), (size.cpu, u64::from(size.ram_gb)));
        assert!(row.wanted.is_none() && row.rollback_to.is_none());
        (size.cpu, size.ram_gb, size.disk_gb)
    }

    async fn create_computer(&self, name: &str, ram_gb: u32) -> HttpAnswer {
        let body = json!({"workspace_id": self.workspace, "name": name, "ram": ram_gb});
        self.controller.post("/computers", body).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_comes_back_with_the_size_that_it_knows() {
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    assert_eq!(scene.size().await, (1.0, 4, 8));
    let (disk, small) = (scene.create_snapshot(false).await, scene.create_snapshot(true).await);
    scene.resize(json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20})).await;
    let large = scene.create_snapshot(true).await;
    scene.assert_roll_back(&small, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((1.0, 4, 20), 2), "a disk never shrinks");
    scene.assert_roll_back(&large, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((2.0, 8, 20), 2));
    // A snapshot of the disk works with any size.
    scene.assert_roll_back(&disk, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((2.0, 8, 20), 1));
    // A suspended computer resumes with the snapshot's size, also after a restart of the controller.
    scene.suspend().await;
    scene.assert_roll_back(&small, "suspended").await;
    let mut scene = scene;
    scene.controller.restart().await;
    assert_eq!(scene.count().await, 2);
    assert_eq!(scene.size().await, (1.0, 4, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_for_which_the_account_has_no_room_is_refused_and_nothing_changes() {
    let limits = Limits { max_account_ram_gb: 12, ..Limits::default() };
    let scene = Scene::boot_with(Setup { limits, ..Setup::default() }).await;
    scene.resize(json!({"mem_gb": 8})).await;
    assert_eq!(scene.count().await, 1);
    let large = scene.create_snapshot(true).await;
    scene.resize(json!({"mem_gb": 4})).await;
    let other = scene.create_computer("other", 8).await;
    assert_eq!(other.status, 201, "{}", other.body);
    let text = "The account has no room for the snapshot's size (vCPUs: 1, GB of RAM: 8)";
    assert_refused(&scene.roll_back(&large).await, 409, Some("snapshot_too_large"), text);
    scene.assert_status("running").await;
    assert_eq!((scene.size().await, scene.count().await), ((1.0, 4, 8), 2), "the computer continues to run");
    let other = crate::harness::caller::id_of(&other.body);
    assert_eq!(scene.controller.delete(&format!("/computers/{other}")).await.status, 200);

    // During the rollback the larger size is reserved; afterwards, the actual one.
    for (failure, then, free) in [(Some(Failure::Before(broken())), (1.0, 4, 8), 8), (None, (1.0, 8, 8), 4)] {
        // The first call is held, so that another request comes meanwhile. Then the rollback fails or
        // succeeds.
        let (fails, call) = (failure.is_some(), scene.controller.engine.calls(Verb::Stop) + 1);
        if let Some(failure) = failure {
            fail_next(&scene, Verb::Rollback, failure);
        }
        let held = hold_next(&scene, Verb::Stop);
        let meanwhile = async {
            let started = wait::until(Duration::from_secs(30), || async {
                (scene.controller.engine.calls(Verb::Stop) >= call).then_some(())
            });
            started.await.expect("a running stop");
            let more = scene.create_computer("more", 8).await;
            held.cancel();
            more
        };
        let (back, more) = tokio::join!(scene.roll_back(&large), meanwhile);
        assert_eq!(back.status, if fails { 500 } else { 200 }, "{}", back.body);
        assert_eq!((more.status, &more.body["code"]), (403, &json!("RAM_ADDON")), "{}", more.body);
        assert_eq!(scene.size().await, then);
        let fits = scene.create_computer("fits", free).await;
        assert_eq!(fits.status, 201, "{}", fits.body);
        assert_eq!(scene.create_computer("over", 4).await.status, 403);
        let fits = crate::harness::caller::id_of(&fits.body);
        assert_eq!(scene.controller.delete(&format!("/computers/{fits}")).await.status, 200);
    }
}
