//! Does a controller that was killed in the middle of a snapshot or a rollback find out where things stand? (threats.md T18)
//! Each case is what was stored and what the engine has, as a crash at one point leaves them.

use std::time::Duration;

use hotdesk::base::ids::{ComputerId, SnapshotId};
use hotdesk::controller::config::Limits;
use hotdesk::domain::lifecycle::Status;
use hotdesk::engine::Engine;
use hotdesk::store::Store;
use hotdesk::store::snapshots::NewSnapshot;
use serde_json::json;

use crate::suspension::Scene;

/// A controller that is not there: its store and its machines are.
struct Night {
    scene: Scene,
    store: Store,
    id: ComputerId,
}

impl Night {
    async fn falls(scene: Scene) -> Self {
        let (store, id) = (scene.house.store().await, scene.computer());
        scene.house.end().await;
        Self { scene, store, id }
    }

    /// Stores the intent to make a snapshot.
    async fn intended(&self, memory: bool) -> SnapshotId {
        let (id, allowance) = (SnapshotId::random(), Limits::default().allowance());
        let new = NewSnapshot { id, name: None, memory, allowance };
        let token = self.scene.row().await.agent_token;
        self.store.add_snapshot(self.id, &new, &token).await.expect("stored");
        id
    }

    async fn machine_kept(&self, snapshot: SnapshotId, memory: bool) {
        self.scene.house.engine.snapshot(self.id, snapshot.0, memory).await.expect("kept");
    }

    /// Stores the intent to go back to a snapshot.
    async fn intended_back(&self, snapshot: SnapshotId, status: Status) {
        let target = self.store.snapshot(self.id, snapshot).await.expect("a row");
        let allowance = Limits::default().allowance();
        self.store.begin_rollback(self.id, &target, status, &allowance).await.expect("stored");
    }

    async fn machine_rolled_back(&self, snapshot: SnapshotId) {
        let engine = &self.scene.house.engine;
        engine.stop(self.id, Duration::ZERO).await.expect("stopped");
        engine.rollback(self.id, snapshot.0).await.expect("rolled back");
    }

    async fn dawns(mut self) -> Scene {
        self.store.close().await;
        self.scene.house.begin(&[]).await;
        self.scene
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_snapshot_is_undone_and_half_a_removal_is_finished() {
    let mut scene = Scene::set().await;
    let whole = scene.kept(true).await;
    assert_eq!(scene.count().await, 1);
    for (row, machine, removing) in [
        (true, false, false),
        (true, true, false),
        (false, true, false),
        (true, true, true),
        (true, false, true),
    ] {
        let night = Night::falls(scene).await;
        let snapshot = if row { night.intended(true).await } else { SnapshotId::random() };
        if machine {
            night.machine_kept(snapshot, true).await;
        }
        if removing {
            night.store.snapshot_is_ready(snapshot, 1).await.expect("stored");
            night.store.begin_snapshot_removal(snapshot).await.expect("stored");
        }
        scene = night.dawns().await;
        scene.house.until_status(&scene.id, "running").await;
        let alone = hotdesk::base::wait::until(Duration::from_secs(30), || async {
            let (listed, there) =
                (scene.read("/snapshots").await, scene.house.engine.snapshots(scene.computer()));
            (listed.body["total"] == 1 && there.await.is_ok_and(|there| there.len() == 1)).then_some(())
        });
        assert!(alone.await.is_some(), "row {row} machine {machine} removing {removing}");
        assert_eq!(scene.snapshots().await[0]["id"], json!(whole));
    }
    scene.rolled_back(&whole, "running").await;
    assert_eq!(scene.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_was_cut_short_is_finished() {
    for (memory, status, ends) in [
        (false, Status::Restarting, "running"),
        (true, Status::Restarting, "running"),
        (false, Status::Stopping, "stopped"),
        (true, Status::Stopping, "suspended"),
    ] {
        for done in [false, true] {
            let scene = Scene::set().await;
            scene.write("early");
            assert_eq!(scene.count().await, 1);
            let snapshot = scene.kept(memory).await;
            scene.write("late");
            let night = Night::falls(scene).await;
            let id = snapshot.parse().expect("an id");
            night.intended_back(id, status).await;
            if done {
                night.machine_rolled_back(id).await;
            }
            let mut scene = night.dawns().await;
            let name = format!("memory {memory}, {status:?}, done {done}");
            scene.house.until_status(&scene.id, ends).await;
            assert_eq!(scene.reads(), "early", "{name}");
            assert!(scene.row().await.rollback_to.is_none(), "{name}");
            // Once more changes nothing.
            scene.house.restart().await;
            scene.house.until_status(&scene.id, ends).await;
            if ends == "stopped" {
                assert_eq!(scene.ask("start").await.status, 200);
            }
            assert_eq!(scene.count().await, if memory { 2 } else { 1 }, "{name}");
            assert_eq!(scene.snapshots().await.len(), 1, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_whose_outcome_is_stored_goes_on_from_there() {
    let scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    let snapshot = scene.kept(true).await.parse().expect("an id");
    assert_eq!(scene.count().await, 2);
    let night = Night::falls(scene).await;
    night.intended_back(snapshot, Status::Restarting).await;
    night.machine_rolled_back(snapshot).await;
    night.store.settle_rollback_of_memory(night.id, true).await.expect("stored");
    let row = night.scene.row().await;
    assert!(row.status == Status::Starting && row.saved_token.is_some() && row.rollback_to.is_none());
    let scene = night.dawns().await;
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2, "it went on from its memory");
}
