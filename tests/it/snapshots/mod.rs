//! Snapshots, rollbacks and forks (docs/lifecycle.md).

mod failures;
mod forks;
mod launches;
mod pictures;
mod recovery;
mod sizes;

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::controller::config::Limits;
use hotdesk::engine::{Capabilities, Engine};
use hotdesk::store::fleet::computers::Computer;
use serde_json::{Value, json};

use crate::harness::agent::HttpAnswer;
use crate::harness::simulation::Setup;
use crate::suspension::{SETTINGS, Scene, assert_refused};

impl Scene {
    fn computer(&self) -> ComputerId {
        self.id.parse().expect("an id")
    }

    /// The row of the computer.
    async fn row(&self) -> Computer {
        let store = self.controller.store().await;
        store.computer(&ComputerRef::Id(self.computer())).await.expect("a store").expect("a row")
    }

    fn write_note(&self, text: &str) {
        std::fs::write(self.controller.disk(&self.id).join("note"), text).expect("a file");
    }

    fn read_note(&self) -> String {
        std::fs::read_to_string(self.controller.disk(&self.id).join("note")).expect("a file")
    }

    async fn post_snapshot(&self, body: Value) -> HttpAnswer {
        self.controller.post(&format!("/computers/{}/snapshots", self.id), body).await
    }

    /// Creates a snapshot that is ready and returns its id.
    async fn create_snapshot(&self, memory: bool) -> String {
        let created = self.post_snapshot(json!({ "memory": memory })).await;
        assert_eq!((created.status, &created.body["state"]), (201, &json!("ready")), "{}", created.body);
        created.body["id"].as_str().expect("an id").to_owned()
    }

    async fn roll_back(&self, snapshot: &str) -> HttpAnswer {
        self.controller
            .post(&format!("/computers/{}/rollback", self.id), json!({ "snapshot_id": snapshot }))
            .await
    }

    async fn assert_roll_back(&self, snapshot: &str, status: &str) {
        let answer = self.roll_back(snapshot).await;
        let expected = json!({"success": true, "status": status, "snapshot_id": snapshot});
        assert_eq!((answer.status, &answer.body), (200, &expected));
        self.assert_status(status).await;
    }

    /// The snapshots in the API. Asserts that the engine has the same ones.
    async fn snapshots(&self) -> Vec<Value> {
        let listed = self.read("/snapshots").await.body["snapshots"].as_array().expect("a list").clone();
        let mut ids: Vec<&str> = listed.iter().map(|one| one["id"].as_str().expect("an id")).collect();
        ids.sort_unstable();
        let in_engine = self.controller.engine.snapshots(self.computer()).await.expect("a list");
        let in_engine: Vec<String> = in_engine.iter().map(ToString::to_string).collect();
        assert_eq!(ids, in_engine, "as many snapshots as rows");
        listed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_kept_listed_and_removed() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    let created = scene.post_snapshot(json!({"name": " before the update "})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let first = created.body["id"].as_str().expect("an id").to_owned();
    let expected = json!({"id": first, "computer_id": scene.id, "name": "before the update", "state": "ready",
        "memory": false, "size_bytes": 5, "has_picture": false, "created_at": created.body["created_at"]});
    assert_eq!(created.body, expected);
    let second = scene.create_snapshot(true).await;
    let listed = scene.snapshots().await;
    assert_eq!((listed.len(), &listed[0]["id"], &listed[1]["id"]), (2, &json!(first), &json!(second)));
    assert_eq!((&listed[1]["memory"], &listed[1]["name"]), (&json!(true), &Value::Null));
    assert_eq!(scene.count().await, 1, "the computer continues to run");

    let page = scene.read("/snapshots?limit=1&offset=0").await.body;
    assert_eq!(
        (&page["snapshots"][0]["id"], &page["total"], &page["next_offset"]),
        (&json!(first), &json!(2), &json!(1))
    );
    let page = scene.read("/snapshots?limit=1&offset=1").await.body;
    assert_eq!((&page["snapshots"][0]["id"], &page["next_offset"]), (&json!(second), &Value::Null));
    assert_eq!(scene.read(&format!("/snapshots/{first}")).await.body, expected);

    let path = format!("/computers/{}/snapshots/{first}", scene.id);
    let removed = scene.controller.delete(&path).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    for answer in [
        scene.controller.delete(&path).await,
        scene.controller.get(&path).await,
        scene.roll_back(&first).await,
    ] {
        assert_refused(&answer, 404, Some("NOT_FOUND"), "Snapshot not found");
    }
    assert_eq!(scene.snapshots().await.len(), 1);
    // A clone starts without snapshots, and cannot use those of its source.
    let clone = scene.ask("clone").await.body["id"].as_str().expect("an id").to_owned();
    assert_eq!(scene.controller.get(&format!("/computers/{clone}/snapshots")).await.body["total"], 0);
    let foreign = scene
        .controller
        .post(&format!("/computers/{clone}/rollback"), json!({ "snapshot_id": second }))
        .await;
    assert_refused(&foreign, 404, Some("NOT_FOUND"), "Snapshot not found");
    // A delete of the computer removes its snapshots.
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    let gone = scene.controller.engine.snapshots(scene.computer()).await.expect("a list");
    assert!(gone.is_empty(), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_runs_runs_again_after_a_rollback() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    let (disk, memory) = (scene.create_snapshot(false).await, scene.create_snapshot(true).await);
    let before = scene.row().await;
    for round in 0..2 {
        scene.write_note("late");
        scene.assert_roll_back(&disk, "running").await;
        assert_eq!((scene.read_note().as_str(), scene.count().await), ("early", 1), "{round}: a new boot");
        scene.write_note("late");
        scene.assert_roll_back(&memory, "running").await;
        assert_eq!(
            (scene.read_note().as_str(), scene.count().await),
            ("early", 3),
            "{round}: the memory is restored"
        );
    }
    let now = scene.row().await;
    assert!(now.agent_token.reveal() != before.agent_token.reveal() && now.generation > before.generation);
    assert_ne!(now.vnc_password.reveal(), before.vnc_password.reveal());
    assert!(now.rollback_to.is_none() && now.saved_token.is_none());
    assert_eq!(scene.snapshots().await.len(), 2, "the snapshots stay");
    let renewals = scene.agents.renewals.lock().expect("no panic");
    assert!(renewals.len() == 2 && renewals.iter().all(|it| !it.another), "renewals of the same computer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_does_not_run_rests_after_a_rollback() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    assert_eq!(scene.count().await, 1);
    let (disk, memory) = (scene.create_snapshot(false).await, scene.create_snapshot(true).await);
    scene.write_note("late");
    scene.suspend().await;
    scene.assert_roll_back(&disk, "stopped").await;
    assert_eq!(scene.read_note(), "early");
    assert!(!scene.controller.memory(&scene.id).exists(), "the memory belongs to another disk");
    scene.write_note("late");
    scene.assert_roll_back(&memory, "suspended").await;
    assert_eq!(scene.read_note(), "early");
    // It resumes like any suspended computer, and the snapshot can be used again.
    assert_eq!((scene.count().await, scene.count().await), (2, 3));
    scene.suspend().await;
    scene.assert_roll_back(&memory, "suspended").await;
    assert_eq!(scene.count().await, 2);
    let fresh = scene.controller.computer(&scene.workspace, "other").await;
    assert_eq!(scene.controller.command(format!("/computers/{fresh}/stop")).await.status, 200);
    scene.controller.until_status(&fresh, "stopped").await;
    let created = scene.controller.post(&format!("/computers/{fresh}/snapshots"), json!({})).await;
    assert_eq!((created.status, &created.body["size_bytes"]), (201, &json!(0)), "{}", created.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_refused_with_its_reason() {
    let scene = Scene::boot().await;
    for body in [json!({"name": ""}), json!({"name": "a".repeat(256)}), json!({"memory": 1}), json!([])] {
        let answer = scene.post_snapshot(body.clone()).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_REQUEST")), "{body}");
    }
    for body in [json!({}), json!({"snapshot_id": 1})] {
        let answer = scene.controller.post(&format!("/computers/{}/rollback", scene.id), body).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_REQUEST")));
    }
    assert_refused(&scene.roll_back("x").await, 404, Some("NOT_FOUND"), "Snapshot not found");
    let unknown = format!("/computers/{}/snapshots", uuid::Uuid::new_v4());
    assert_refused(&scene.controller.get(&unknown).await, 404, Some("NOT_FOUND"), "Desktop not found");
    scene.suspend().await;
    let text = "Computer is not running (status: suspended)";
    assert_refused(&scene.post_snapshot(json!({})).await, 409, Some("computer_asleep"), text);
    scene.ask("stop").await;
    scene.controller.until_status(&scene.id, "stopped").await;
    let text = "Computer is not running (status: stopped)";
    assert_refused(&scene.post_snapshot(json!({"memory": true})).await, 409, Some("CONFLICT"), text);
    assert!(scene.snapshots().await.is_empty());

    // An engine that can snapshot disks of stopped computers only, and no memory.
    let capabilities = Some(Capabilities::default());
    let scene = Scene::boot_with(Setup { capabilities, ..Setup::default() }).await;
    let text = "This computer's disk cannot be kept while it runs: stop it first";
    assert_refused(&scene.post_snapshot(json!({})).await, 409, Some("CONFLICT"), text);
    let text =
        &format!("This computer's memory cannot be kept in a snapshot: its engine saves none. {SETTINGS}");
    assert_refused(
        &scene.post_snapshot(json!({"memory": true})).await,
        400,
        Some("snapshot_unsupported"),
        text,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_bounded_and_count_as_disk() {
    let limits = Limits { max_snapshots: 2, max_account_disk_gb: 20, ..Limits::default() };
    let scene = Scene::boot_with(Setup { limits, ..Setup::default() }).await;
    // 8 GB of disk, 4 GB of memory: 20 GB are enough for the computer and the largest snapshot with memory.
    let (first, _) = (scene.create_snapshot(true).await, scene.create_snapshot(false).await);
    let over = scene.post_snapshot(json!({})).await;
    assert_refused(&over, 403, Some("SNAPSHOT_LIMIT"), "A computer may have 2 snapshots and this one has 2");
    assert_eq!(over.body["max_snapshots"], 2);
    let path = format!("/computers/{}/snapshots/{first}", scene.id);
    assert_eq!(scene.controller.delete(&path).await.status, 200);
    scene.create_snapshot(false).await;
    // The size of snapshots counts in whole GB: 11 of the 20 GB are left.
    scene.write_note("x");
    let body = |disk: u32| json!({"workspace_id": scene.workspace, "name": "more", "disk_size_gb": disk});
    let listed = scene.snapshots().await;
    assert_eq!(listed.iter().map(|one| one["size_bytes"].as_u64().expect("bytes")).sum::<u64>(), 0);
    assert_eq!(scene.controller.post("/computers", body(13)).await.status, 403);
    for one in listed {
        let path = format!("/computers/{}/snapshots/{}", scene.id, one["id"].as_str().expect("an id"));
        assert_eq!(scene.controller.delete(&path).await.status, 200);
    }
    scene.create_snapshot(false).await;
    let refused = scene.controller.post("/computers", body(12)).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("DISK_QUOTA_EXCEEDED")),
        "{}",
        refused.body
    );
    assert_eq!(refused.body["max_disk_gb"], 11);
    assert_eq!(scene.controller.post("/computers", body(11)).await.status, 201);
    let refused = scene.post_snapshot(json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("DISK_QUOTA_EXCEEDED")),
        "{}",
        refused.body
    );
}
