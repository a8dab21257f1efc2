//! Recovery of a controller that was killed during a snapshot or a rollback: T18 (docs/security.md). Each
//! case sets up the store and the engine as a crash at one point leaves them.

use std::time::Duration;

use hotdesk::base::ids::{ComputerId, SnapshotId};
use hotdesk::controller::config::Limits;
use hotdesk::domain::computer::lifecycle::Status;
use hotdesk::engine::Engine;
use hotdesk::store::Store;
use hotdesk::store::fleet::snapshots::NewSnapshot;
use serde_json::json;

use crate::suspension::Scene;

/// The store and the machines of a controller that has ended.
struct OfflineController {
    scene: Scene,
    store: Store,
    id: ComputerId,
}

impl OfflineController {
    async fn new(scene: Scene) -> Self {
        let (store, id) = (scene.controller.store().await, scene.computer());
        scene.controller.end().await;
        Self { scene, store, id }
    }

    /// Stores the intent of a snapshot.
    async fn begin_snapshot(&self, memory: bool) -> SnapshotId {
        let (id, allowance) = (SnapshotId::random(), Limits::default().allowance());
        let new = NewSnapshot { id, name: None, memory, allowance };
        let token = self.scene.row().await.agent_token;
        self.store.add_snapshot(self.id, &new, &token).await.expect("stored");
        id
    }

    async fn snapshot_machine(&self, snapshot: SnapshotId, memory: bool) {
        self.scene.controller.engine.snapshot(self.id, snapshot.0, memory).await.expect("kept");
    }

    /// Stores the intent of a rollback.
    async fn begin_rollback(&self, snapshot: SnapshotId, status: Status) {
        let target = self.store.snapshot(self.id, snapshot).await.expect("a row");
        let allowance = Limits::default().allowance();
        self.store.begin_rollback(self.id, &target, status, &allowance).await.expect("stored");
    }

    async fn roll_back_machine(&self, snapshot: SnapshotId) {
        let engine = &self.scene.controller.engine;
        engine.stop(self.id, Duration::ZERO).await.expect("stopped");
        engine.rollback(self.id, snapshot.0).await.expect("rolled back");
    }

    async fn start(mut self) -> Scene {
        self.store.close().await;
        self.scene.controller.begin(&[]).await;
        self.scene
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_snapshot_is_undone_and_half_a_removal_is_finished() {
    let mut scene = Scene::boot().await;
    let complete = scene.create_snapshot(true).await;
    assert_eq!(scene.count().await, 1);
    for (row, machine, removing) in [
        (true, false, false),
        (true, true, false),
        (false, true, false),
        (true, true, true),
        (true, false, true),
    ] {
        let offline = OfflineController::new(scene).await;
        let snapshot = if row { offline.begin_snapshot(true).await } else { SnapshotId::random() };
        if machine {
            offline.snapshot_machine(snapshot, true).await;
        }
        if removing {
            offline.store.mark_snapshot_ready(snapshot, 1).await.expect("stored");
            offline.store.begin_snapshot_removal(snapshot).await.expect("stored");
        }
        scene = offline.start().await;
        scene.controller.until_status(&scene.id, "running").await;
        let alone = hotdesk::base::wait::until(Duration::from_secs(30), || async {
            let (listed, there) =
                (scene.read("/snapshots").await, scene.controller.engine.snapshots(scene.computer()));
            (listed.body["total"] == 1 && there.await.is_ok_and(|there| there.len() == 1)).then_some(())
        });
        assert!(alone.await.is_some(), "row {row} machine {machine} removing {removing}");
        assert_eq!(scene.snapshots().await[0]["id"], json!(complete));
    }
    scene.assert_roll_back(&complete, "running").await;
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
            let scene = Scene::boot().await;
            scene.write_note("early");
            assert_eq!(scene.count().await, 1);
            let snapshot = scene.create_snapshot(memory).await;
            scene.write_note("late");
            let offline = OfflineController::new(scene).await;
            let id = snapshot.parse().expect("an id");
            offline.begin_rollback(id, status).await;
            if done {
                offline.roll_back_machine(id).await;
            }
            let mut scene = offline.start().await;
            let name = format!("memory {memory}, {status:?}, done {done}");
            scene.controller.until_status(&scene.id, ends).await;
            assert_eq!(scene.read_note(), "early", "{name}");
            assert!(scene.row().await.rollback_to.is_none(), "{name}");
            // A further restart changes nothing.
            scene.controller.restart().await;
            scene.controller.until_status(&scene.id, ends).await;
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
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    let snapshot = scene.create_snapshot(true).await.parse().expect("an id");
    assert_eq!(scene.count().await, 2);
    let offline = OfflineController::new(scene).await;
    offline.begin_rollback(snapshot, Status::Restarting).await;
    offline.roll_back_machine(snapshot).await;
    offline.store.settle_rollback_of_memory(offline.id, true).await.expect("stored");
    let row = offline.scene.row().await;
    assert!(row.status == Status::Starting && row.saved_token.is_some() && row.rollback_to.is_none());
    let scene = offline.start().await;
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2, "the memory is restored");
}
