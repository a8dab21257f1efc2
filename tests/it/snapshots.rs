//! Is a computer kept as it was at one moment, brought back to that, and forked with what runs on it? (issue 5; wire.md 5.2)

mod failures;
mod forks;
mod launches;
mod recovery;
mod sizes;

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::controller::config::Limits;
use hotdesk::engine::{Capabilities, Engine};
use hotdesk::store::computers::Computer;
use serde_json::{Value, json};

use crate::harness::agent::Answered;
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, refused};

impl Scene {
    fn computer(&self) -> ComputerId {
        self.id.parse().expect("an id")
    }

    /// The computer's row.
    async fn row(&self) -> Computer {
        let store = self.house.store().await;
        store.computer(&ComputerRef::Id(self.computer())).await.expect("a store").expect("a row")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.house.disk(&self.id).join("note"), text).expect("a file");
    }

    fn reads(&self) -> String {
        std::fs::read_to_string(self.house.disk(&self.id).join("note")).expect("a file")
    }

    async fn keep(&self, body: Value) -> Answered {
        self.house.post(&format!("/computers/{}/snapshots", self.id), body).await
    }

    /// A snapshot that is ready; its id.
    async fn kept(&self, memory: bool) -> String {
        let made = self.keep(json!({ "memory": memory })).await;
        assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
        made.body["id"].as_str().expect("an id").to_owned()
    }

    async fn roll_back(&self, snapshot: &str) -> Answered {
        self.house.post(&format!("/computers/{}/rollback", self.id), json!({ "snapshot_id": snapshot })).await
    }

    async fn rolled_back(&self, snapshot: &str, status: &str) {
        let answer = self.roll_back(snapshot).await;
        let expected = json!({"success": true, "status": status, "snapshot_id": snapshot});
        assert_eq!((answer.status, &answer.body), (200, &expected));
        self.is(status).await;
    }

    /// The snapshots that the controller tells of; the engine has the same.
    async fn snapshots(&self) -> Vec<Value> {
        let listed = self.read("/snapshots").await.body["snapshots"].as_array().expect("a list").clone();
        let mut told: Vec<&str> = listed.iter().map(|one| one["id"].as_str().expect("an id")).collect();
        told.sort_unstable();
        let there = self.house.engine.snapshots(self.computer()).await.expect("a list");
        let there: Vec<String> = there.iter().map(ToString::to_string).collect();
        assert_eq!(told, there, "as many snapshots as rows");
        listed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_kept_listed_and_removed() {
    let scene = Scene::set().await;
    scene.write("early");
    let made = scene.keep(json!({"name": " before the update "})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let first = made.body["id"].as_str().expect("an id").to_owned();
    let shown = json!({"id": first, "computer_id": scene.id, "name": "before the update", "state": "ready",
        "memory": false, "size_bytes": 5, "created_at": made.body["created_at"]});
    assert_eq!(made.body, shown);
    let second = scene.kept(true).await;
    let listed = scene.snapshots().await;
    assert_eq!((listed.len(), &listed[0]["id"], &listed[1]["id"]), (2, &json!(first), &json!(second)));
    assert_eq!((&listed[1]["memory"], &listed[1]["name"]), (&json!(true), &Value::Null));
    assert_eq!(scene.count().await, 1, "the computer goes on");

    let page = scene.read("/snapshots?limit=1&offset=0").await.body;
    assert_eq!(
        (&page["snapshots"][0]["id"], &page["total"], &page["next_offset"]),
        (&json!(first), &json!(2), &json!(1))
    );
    let page = scene.read("/snapshots?limit=1&offset=1").await.body;
    assert_eq!((&page["snapshots"][0]["id"], &page["next_offset"]), (&json!(second), &Value::Null));
    assert_eq!(scene.read(&format!("/snapshots/{first}")).await.body, shown);

    let path = format!("/computers/{}/snapshots/{first}", scene.id);
    let removed = scene.house.delete(&path).await;
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    for answer in
        [scene.house.delete(&path).await, scene.house.get(&path).await, scene.roll_back(&first).await]
    {
        refused(&answer, 404, Some("NOT_FOUND"), "Snapshot not found");
    }
    assert_eq!(scene.snapshots().await.len(), 1);
    // A clone starts with none, and another computer's is nobody else's.
    let clone = scene.ask("clone").await.body["id"].as_str().expect("an id").to_owned();
    assert_eq!(scene.house.get(&format!("/computers/{clone}/snapshots")).await.body["total"], 0);
    let foreign =
        scene.house.post(&format!("/computers/{clone}/rollback"), json!({ "snapshot_id": second })).await;
    refused(&foreign, 404, Some("NOT_FOUND"), "Snapshot not found");
    // They go with their computer.
    assert_eq!(scene.house.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    let gone = scene.house.engine.snapshots(scene.computer()).await.expect("a list");
    assert!(gone.is_empty(), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_runs_runs_again_after_a_rollback() {
    let scene = Scene::set().await;
    scene.write("early");
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    let (disk, memory) = (scene.kept(false).await, scene.kept(true).await);
    let before = scene.row().await;
    for round in 0..2 {
        scene.write("late");
        scene.rolled_back(&disk, "running").await;
        assert_eq!((scene.reads().as_str(), scene.count().await), ("early", 1), "{round}: it booted");
        scene.write("late");
        scene.rolled_back(&memory, "running").await;
        assert_eq!((scene.reads().as_str(), scene.count().await), ("early", 3), "{round}: it went on");
    }
    let now = scene.row().await;
    assert!(now.agent_token.reveal() != before.agent_token.reveal() && now.generation > before.generation);
    assert_ne!(now.vnc_password.reveal(), before.vnc_password.reveal());
    assert!(now.rollback_to.is_none() && now.saved_token.is_none());
    assert_eq!(scene.snapshots().await.len(), 2, "snapshots stay");
    let renewals = scene.agents.renewals.lock().expect("no panic");
    assert!(renewals.len() == 2 && renewals.iter().all(|it| !it.another), "the same computer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_does_not_run_rests_after_a_rollback() {
    let scene = Scene::set().await;
    scene.write("early");
    assert_eq!(scene.count().await, 1);
    let (disk, memory) = (scene.kept(false).await, scene.kept(true).await);
    scene.write("late");
    scene.suspended().await;
    scene.rolled_back(&disk, "stopped").await;
    assert_eq!(scene.reads(), "early");
    assert!(!scene.house.memory(&scene.id).exists(), "memory of another disk");
    scene.write("late");
    scene.rolled_back(&memory, "suspended").await;
    assert_eq!(scene.reads(), "early");
    // It wakes as any computer that sleeps, with what it had then, and can go back to it again.
    assert_eq!((scene.count().await, scene.count().await), (2, 3));
    scene.suspended().await;
    scene.rolled_back(&memory, "suspended").await;
    assert_eq!(scene.count().await, 2);
    let fresh = scene.house.computer(&scene.workspace, "other").await;
    assert_eq!(scene.house.command(format!("/computers/{fresh}/stop")).await.status, 200);
    scene.house.until_status(&fresh, "stopped").await;
    let made = scene.house.post(&format!("/computers/{fresh}/snapshots"), json!({})).await;
    assert_eq!((made.status, &made.body["size_bytes"]), (201, &json!(0)), "{}", made.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_refused_with_its_reason() {
    let scene = Scene::set().await;
    for body in [json!({"name": ""}), json!({"name": "a".repeat(256)}), json!({"memory": 1}), json!([])] {
        let answer = scene.keep(body.clone()).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_REQUEST")), "{body}");
    }
    for body in [json!({}), json!({"snapshot_id": 1})] {
        let answer = scene.house.post(&format!("/computers/{}/rollback", scene.id), body).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_REQUEST")));
    }
    refused(&scene.roll_back("x").await, 404, Some("NOT_FOUND"), "Snapshot not found");
    let nobody = format!("/computers/{}/snapshots", uuid::Uuid::new_v4());
    refused(&scene.house.get(&nobody).await, 404, Some("NOT_FOUND"), "Desktop not found");
    scene.suspended().await;
    let text = "Computer is not running (status: suspended)";
    refused(&scene.keep(json!({})).await, 409, Some("computer_asleep"), text);
    scene.ask("stop").await;
    scene.house.until_status(&scene.id, "stopped").await;
    let text = "Computer is not running (status: stopped)";
    refused(&scene.keep(json!({"memory": true})).await, 409, Some("CONFLICT"), text);
    assert!(scene.snapshots().await.is_empty());

    // An engine that keeps disks of what rests, and no memory.
    let capabilities = Some(Capabilities::default());
    let scene = Scene::set_up(Setup { capabilities, ..Setup::default() }).await;
    let text = "This computer's disk cannot be kept while it runs: stop it first";
    refused(&scene.keep(json!({})).await, 409, Some("CONFLICT"), text);
    let text = "This computer's memory cannot be kept in a snapshot";
    refused(&scene.keep(json!({"memory": true})).await, 400, Some("snapshot_unsupported"), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_bounded_and_count_as_disk() {
    let limits = Limits { max_snapshots: 2, max_account_disk_gb: 20, ..Limits::default() };
    let scene = Scene::set_up(Setup { limits, ..Setup::default() }).await;
    // 8 GB of disk, 4 of memory: 20 GB hold the computer and the most that a snapshot with memory may take.
    let (first, _) = (scene.kept(true).await, scene.kept(false).await);
    let over = scene.keep(json!({})).await;
    refused(&over, 403, Some("SNAPSHOT_LIMIT"), "A computer may have 2 snapshots and this one has 2");
    assert_eq!(over.body["max_snapshots"], 2);
    let path = format!("/computers/{}/snapshots/{first}", scene.id);
    assert_eq!(scene.house.delete(&path).await.status, 200);
    scene.kept(false).await;
    // What they take counts in whole GB: of the 20 there are 11 left.
    scene.write("x");
    let order = |disk: u32| json!({"workspace_id": scene.workspace, "name": "more", "disk_size_gb": disk});
    let listed = scene.snapshots().await;
    assert_eq!(listed.iter().map(|one| one["size_bytes"].as_u64().expect("bytes")).sum::<u64>(), 0);
    assert_eq!(scene.house.post("/computers", order(13)).await.status, 403);
    for one in listed {
        let path = format!("/computers/{}/snapshots/{}", scene.id, one["id"].as_str().expect("an id"));
        assert_eq!(scene.house.delete(&path).await.status, 200);
    }
    scene.kept(false).await;
    let refused = scene.house.post("/computers", order(12)).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("DISK_QUOTA_EXCEEDED")),
        "{}",
        refused.body
    );
    assert_eq!(refused.body["max_disk_gb"], 11);
    assert_eq!(scene.house.post("/computers", order(11)).await.status, 201);
    let refused = scene.keep(json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("DISK_QUOTA_EXCEEDED")),
        "{}",
        refused.body
    );
}
