//! Which size has a computer that goes back to a snapshot? With memory that of then, where its account has room for it;
//! without the one that it has. What is reserved is exact at every moment.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::Limits;
use hotdesk::engine::simulated::{Failure, Verb};
use serde_json::{Value, json};

use super::failures::{broken, fail_next};
use crate::harness::agent::Answered;
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, refused};

impl Scene {
    async fn resized(&self, to: Value) {
        self.house.until_status(&self.id, "running").await;
        let told = self.house.post(&format!("/computers/{}/resize", self.id), to).await;
        assert_eq!(told.status, 200, "{}", told.body);
    }

    /// The row's size, which the machine has too where it runs or waits to go on.
    async fn size(&self) -> (f64, u32, u32) {
        let row = self.row().await;
        let machine = self.house.size(&self.id);
        let size = row.hardware;
        assert_eq!((machine.cpu, machine.memory_bytes >> 30), (size.cpu, u64::from(size.ram_gb)));
        assert!(row.wanted.is_none() && row.rollback_to.is_none());
        (size.cpu, size.ram_gb, size.disk_gb)
    }

    async fn another(&self, name: &str, ram_gb: u32) -> Answered {
        let order = json!({"workspace_id": self.workspace, "name": name, "ram": ram_gb});
        self.house.post("/computers", order).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_comes_back_with_the_size_that_it_knows() {
    let scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    assert_eq!(scene.size().await, (1.0, 4, 8));
    let (disk, small) = (scene.kept(false).await, scene.kept(true).await);
    scene.resized(json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20})).await;
    let large = scene.kept(true).await;
    scene.rolled_back(&small, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((1.0, 4, 20), 2), "a disk never shrinks");
    scene.rolled_back(&large, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((2.0, 8, 20), 2));
    // A disk goes on in whatever computer has it.
    scene.rolled_back(&disk, "running").await;
    assert_eq!((scene.size().await, scene.count().await), ((2.0, 8, 20), 1));
    // One that sleeps wakes with it, also after a restart of the controller.
    scene.suspended().await;
    scene.rolled_back(&small, "suspended").await;
    let mut scene = scene;
    scene.house.restart().await;
    assert_eq!(scene.count().await, 2);
    assert_eq!(scene.size().await, (1.0, 4, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_for_which_the_account_has_no_room_is_refused_and_nothing_changes() {
    let limits = Limits { max_account_ram_gb: 12, ..Limits::default() };
    let scene = Scene::set_up(Setup { limits, ..Setup::default() }).await;
    scene.resized(json!({"mem_gb": 8})).await;
    assert_eq!(scene.count().await, 1);
    let large = scene.kept(true).await;
    scene.resized(json!({"mem_gb": 4})).await;
    let other = scene.another("other", 8).await;
    assert_eq!(other.status, 201, "{}", other.body);
    let text = "The account has no room for the snapshot's size (vCPUs: 1, GB of RAM: 8)";
    refused(&scene.roll_back(&large).await, 409, Some("snapshot_too_large"), text);
    scene.is("running").await;
    assert_eq!((scene.size().await, scene.count().await), ((1.0, 4, 8), 2), "it goes on");
    let other = crate::harness::caller::id_of(&other.body);
    assert_eq!(scene.house.delete(&format!("/computers/{other}")).await.status, 200);

    // While it is under way the larger size is held, afterwards the one that it has.
    for (failure, then, free) in [(Some(Failure::Before(broken())), (1.0, 4, 8), 8), (None, (1.0, 8, 8), 4)] {
        // The first call of the verb waits, so that somebody asks meanwhile; then it fails, or does not.
        let (fails, call) = (failure.is_some(), scene.house.engine.calls(Verb::Stop) + 1);
        if let Some(failure) = failure {
            fail_next(&scene, Verb::Rollback, failure);
        }
        fail_next(&scene, Verb::Stop, Failure::Delay(Duration::from_secs(5)));
        let meanwhile = async {
            let begun = wait::until(Duration::from_secs(30), || async {
                (scene.house.engine.calls(Verb::Stop) >= call).then_some(())
            });
            begun.await.expect("it began");
            scene.another("more", 8).await
        };
        let (back, more) = tokio::join!(scene.roll_back(&large), meanwhile);
        assert_eq!(back.status, if fails { 500 } else { 200 }, "{}", back.body);
        assert_eq!((more.status, &more.body["code"]), (403, &json!("RAM_ADDON")), "{}", more.body);
        assert_eq!(scene.size().await, then);
        let fits = scene.another("fits", free).await;
        assert_eq!(fits.status, 201, "{}", fits.body);
        assert_eq!(scene.another("over", 4).await.status, 403);
        let fits = crate::harness::caller::id_of(&fits.body);
        assert_eq!(scene.house.delete(&format!("/computers/{fits}")).await.status, 200);
    }
}
