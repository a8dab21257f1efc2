//! Copies of suspended computers in object storage, their eviction and their return
//! (docs/lifecycle.md#suspend).

mod desktops;
mod faults;
mod rollback;
mod s3;
mod sealed;
mod store;

use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::{StorageSettings, SuspendCompletion};
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::{Value, json};

use self::store::FaultyStore;
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, assert_refused, hold_next};

/// Longest wait for background work, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// A scene with an object store, and files on its computer's disk that make several parts, compressible and
/// not.
pub struct StorageScene {
    pub scene: Scene,
    pub store: Arc<FaultyStore>,
    note: Vec<u8>,
}

impl StorageScene {
    /// A scene that evicts each state as soon as its copy is complete.
    pub async fn boot_evicting() -> Self {
        Self::boot(Some(0), SuspendCompletion::Background).await
    }

    pub async fn boot(local_quota_mb: Option<u64>, when: SuspendCompletion) -> Self {
        Self::boot_with(StorageSettings { local_quota_mb, when, ..StorageSettings::default() }).await
    }

    /// A scene that evicts each state, and seals copies.
    pub async fn boot_sealing() -> Self {
        Self::boot_with(StorageSettings {
            local_quota_mb: Some(0),
            encrypt: true,
            ..StorageSettings::default()
        })
        .await
    }

    async fn boot_with(storage: StorageSettings) -> Self {
        let store = FaultyStore::new();
        let storage = StorageSettings { objects: Some(store.objects()), ..storage };
        let scene = Scene::boot_with(Setup { storage, ..Setup::default() }).await;
        let disk = scene.controller.disk(&scene.id);
        std::fs::create_dir(disk.join("home")).expect("a folder");
        let mut note = vec![7_u8; 9 * MIB];
        rand::fill(&mut note[5 * MIB..]);
        std::fs::write(disk.join("home/note"), &note).expect("a file");
        std::fs::write(disk.join("empty"), "").expect("a file");
        scene.controller.until_status(&scene.id, "running").await;
        Self { scene, store, note }
    }

    /// Waits for background work.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, probe: impl Fn() -> F) {
        let found = wait::until(TIMEOUT, || async { probe().await.then_some(()) }).await;
        assert!(found.is_some(), "{what}: {:?}", self.store.names().await);
    }

    pub fn is_on_host(&self) -> bool {
        self.scene.controller.disk(&self.scene.id).exists()
            || self.scene.controller.memory(&self.scene.id).exists()
    }

    pub async fn until_evicted(&self) {
        self.until("evicted", || async { !self.is_on_host() }).await;
        self.scene.assert_status("suspended").await;
    }

    pub async fn until_empty(&self) {
        self.until("no objects", || async { self.store.names().await.is_empty() }).await;
    }

    pub async fn suspend_and_evict(&self) {
        self.scene.suspend().await;
        self.until_evicted().await;
    }

    /// The names of the objects of one kind: `part-` or `manifest`.
    pub async fn objects(&self, kind: &str) -> Vec<String> {
        let names = self.store.names().await;
        names.into_iter().filter(|name| name.contains(&format!("/{kind}"))).collect()
    }

    /// [`crate::harness::simulation::Simulation::until_status`] with a timeout for slow stores.
    pub async fn until_status(&self, status: &str) {
        let has_status = || async { self.scene.controller.status(&self.scene.id).await == status };
        self.until(status, has_status).await;
    }

    /// Number of the stored keys of workspaces.
    async fn workspace_keys(&self) -> i64 {
        let pool = self.scene.controller.store_pool().await;
        let counted = sqlx::query_scalar("SELECT COUNT(*) FROM workspace_keys").fetch_one(&pool).await;
        pool.close().await;
        counted.expect("a count")
    }

    pub fn assert_disk_unchanged(&self) {
        let disk = self.scene.controller.disk(&self.scene.id);
        assert!(std::fs::read(disk.join("home/note")).expect("a note") == self.note, "the note differs");
        assert_eq!(std::fs::read(disk.join("empty")).expect("a file"), b"");
    }

    pub fn plan(&self, verb: Verb, failure: Failure) {
        let call = self.scene.controller.engine.calls(verb) + 1;
        self.scene.controller.engine.plan(Fault { verb, call, failure });
    }

    async fn instance(&self) -> String {
        self.scene.read("").await.body["instance_id"].as_str().expect("a handle").to_owned()
    }

    /// Repeats a suspend until the computer has converged.
    async fn suspend_again(&self) {
        self.until("converged", || async { self.scene.ask("suspend").await.status == 200 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_saved_in_the_background_and_a_computer_wakes_from_it() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    assert_eq!(scene.count().await, 1);
    storage.store.set_open(false);
    let first = storage.instance().await;
    let suspended = scene.ask("suspend").await;
    let saving = json!({"state": "saving", "region": null});
    let expected = json!({"success": true, "status": "suspended", "storage": saving});
    assert_eq!((suspended.status, suspended.body), (200, expected.clone()));
    let again = scene.ask("suspend").await;
    assert_eq!((again.status, again.body), (200, expected));
    let suspension = scene.read("/suspension").await.body;
    assert_eq!(suspension, json!({"status": "suspended", "storage": saving}));
    assert!(storage.is_on_host());

    storage.store.set_open(true);
    storage.until_evicted().await;
    assert_eq!(scene.read("/suspension").await.body, json!({"status": "suspended"}));
    let (parts, manifests) = (storage.objects("part-").await, storage.objects("manifest").await);
    assert!(parts.len() >= 4 && manifests.len() == 1, "{parts:?}");
    let label = format!("/{}/1-", scene.id);
    assert!(parts.iter().all(|part| part.contains(&label)), "{parts:?}");

    // A computer in storage can be changed like any suspended one.
    assert_eq!(storage.instance().await, first);
    let path = format!("/computers/{}/auto-stop", scene.id);
    assert_eq!(scene.controller.patch(&path, json!({"minutes": 7})).await.status, 200);

    let held = hold_next(scene, Verb::SyncFetched);
    let woken = scene.ask("resume").await;
    assert_eq!((woken.status, &woken.body["waking"]), (202, &json!(true)), "{}", woken.body);
    assert_eq!((&woken.body["pending"], &woken.body["expected_seconds"]), (&json!(true), &json!(60)));
    let text = "Computer is still finishing waking up; retry in a minute";
    let refusal = scene.ask("suspend").await;
    assert_refused(&refusal, 409, Some("converging"), text);
    assert_eq!(refusal.body["retry_after"], 30);
    held.cancel();
    scene.assert_status("running").await;
    assert_eq!(scene.count().await, 2, "the memory is restored");
    storage.assert_disk_unchanged();
    let second = storage.instance().await;
    assert_ne!(second, first);
    let again = scene.ask("resume").await;
    assert_eq!((again.status, &again.body["waking"]), (200, &json!(false)));

    // Every earlier handle of the computer still works.
    for handle in [&first, &second, &scene.id] {
        let record = scene.controller.get(&format!("/computers/{handle}")).await;
        assert_eq!((record.status, &record.body["id"]), (200, &json!(scene.id)));
        assert_eq!(record.body["instance_id"], json!(second));
        let proxied = scene.controller.get(&format!("/desktops/{handle}/proxy/health")).await;
        assert_eq!((proxied.status, &proxied.body["status"]), (200, &json!("ok")), "{}", proxied.body);
    }
    storage.until_empty().await;
    storage.suspend_again().await;
    storage.until_evicted().await;
    // An action resumes it from storage, too.
    assert_eq!(scene.count().await, 3);
    let third = storage.instance().await;
    assert!(third != second && third != first);
    for handle in [&first, &second, &third] {
        assert_eq!(scene.controller.get(&format!("/computers/{handle}")).await.body["id"], json!(scene.id));
    }
    storage.until_empty().await;
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    assert_refused(
        &scene.controller.get(&format!("/computers/{first}")).await,
        404,
        None,
        "Desktop not found",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_waits_for_its_copy_where_that_is_configured() {
    let storage = StorageScene::boot(None, SuspendCompletion::BeforeRelease).await;
    let scene = &storage.scene;
    assert_eq!(scene.count().await, 1);
    storage.store.set_open(false);
    for _ in 0..3 {
        let answer = scene.ask("suspend").await;
        assert_eq!((answer.status, answer.body), (202, json!({"success": true, "status": "suspending"})));
        let suspension = scene.read("/suspension").await;
        assert_eq!((suspension.status, suspension.body), (200, json!({"status": "suspending"})));
    }
    assert_eq!(scene.controller.engine.calls(Verb::Suspend), 1);
    storage.store.set_open(true);
    storage.until_status("suspended").await;
    let answer = scene.ask("suspend").await;
    assert_eq!((answer.status, answer.body), (200, json!({"success": true, "status": "suspended"})));
    assert_eq!(storage.objects("manifest").await.len(), 1);
    assert!(storage.is_on_host(), "the quota holds the state");

    // The state is on the host, so the resume does not need the copy and removes it.
    let before = storage.instance().await;
    let woken = scene.ask("resume").await;
    assert_eq!((woken.status, &woken.body["status"]), (200, &json!("running")));
    assert_eq!((storage.instance().await, scene.count().await), (before, 2));
    storage.until_empty().await;

    // A resume, a restart and a stop work before the copy is complete.
    for (turn, verb) in ["resume", "restart", "stop"].into_iter().enumerate() {
        storage.store.set_open(false);
        assert_eq!(scene.ask("suspend").await.status, 202, "{turn}");
        assert_eq!(scene.ask(verb).await.status, 200, "{verb}");
        storage.until_status(if verb == "stop" { "stopped" } else { "running" }).await;
        storage.store.set_open(true);
        storage.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_resumed_stopped_or_deleted_while_its_copy_is_saved() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    for (verb, goal) in [("resume", "running"), ("restart", "running"), ("stop", "stopped")] {
        storage.store.set_open(false);
        scene.suspend().await;
        assert!(scene.read("/suspension").await.body["storage"].is_object());
        let answer = scene.ask(verb).await;
        assert_eq!(answer.status, 200, "{verb}: {}", answer.body);
        storage.until_status(goal).await;
        storage.store.set_open(true);
        storage.until_empty().await;
        storage.assert_disk_unchanged();
    }
    assert_eq!(scene.ask("start").await.status, 200);
    storage.until_status("running").await;
    // A delete works before the copy is complete, and when the state is in storage.
    storage.store.set_open(false);
    scene.suspend().await;
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    storage.store.set_open(true);
    storage.until_empty().await;
    assert_eq!(scene.controller.machines(), [""; 0]);

    let storage = StorageScene::boot_evicting().await;
    storage.suspend_and_evict().await;
    assert_eq!(
        storage.scene.controller.delete(&format!("/computers/{}", storage.scene.id)).await.status,
        200
    );
    storage.until_empty().await;
    assert_eq!(storage.scene.controller.machines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_in_storage_has_its_disk() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    storage.suspend_and_evict().await;
    let handle = storage.instance().await;
    assert_eq!(scene.ask("stop").await.status, 200);
    storage.until_status("stopped").await;
    storage.assert_disk_unchanged();
    assert!(!scene.controller.memory(&scene.id).exists());
    storage.until_empty().await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!((scene.count().await, storage.instance().await), (1, handle), "a boot from its disk");
    storage.suspend_and_evict().await;
    assert_eq!(scene.ask("restart").await.status, 200);
    assert_eq!(scene.count().await, 1);
    storage.assert_disk_unchanged();
    storage.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_suspended_first_makes_room_first() {
    // Three states of about 9 MiB with a quota for two.
    let storage = StorageScene::boot(Some(20), SuspendCompletion::Background).await;
    let controller = &storage.scene.controller;
    let mut ids = vec![storage.scene.id.clone()];
    for name in ["second", "third"] {
        let id = controller.computer(&storage.scene.workspace, name).await;
        std::fs::write(controller.disk(&id).join("note"), &storage.note).expect("a file");
        ids.push(id);
    }
    // The order of the suspends differs from the order of the creates.
    for at in [1, 2, 0] {
        controller.until_status(&ids[at], "running").await;
        assert_eq!(controller.post(&format!("/computers/{}/suspend", ids[at]), json!({})).await.status, 200);
        let path = format!("/computers/{}/suspension", ids[at]);
        storage.until("saved", || async { controller.get(&path).await.body["storage"].is_null() }).await;
    }
    let on_host = |id: &str| controller.disk(id).exists();
    storage.until("the oldest state is evicted", || async { !on_host(&ids[1]) }).await;
    assert!(on_host(&ids[0]) && on_host(&ids[2]), "the quota holds two");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_nothing_is_told_of_one() {
    let scene = Scene::boot().await;
    scene.suspend().await;
    assert_eq!(scene.read("/suspension").await.body.get("storage"), None::<&Value>);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_parts_with_the_copy_of_what_was() {
    let storage = StorageScene::boot_evicting().await;
    let scene = &storage.scene;
    let path = format!("/computers/{}/snapshots", scene.id);
    let snapshot = scene.controller.post(&path, json!({"memory": true})).await;
    assert_eq!(snapshot.status, 201, "{}", snapshot.body);
    std::fs::write(scene.controller.disk(&scene.id).join("home/note"), "later").expect("a file");
    storage.suspend_and_evict().await;
    let before = storage.objects("manifest").await;
    let back = json!({"snapshot_id": snapshot.body["id"]});
    let answer = scene.controller.post(&format!("/computers/{}/rollback", scene.id), back).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("suspended")), "{}", answer.body);
    // The rolled-back state is copied, and the copy of the earlier state is removed.
    let copied = || async {
        let now = storage.objects("manifest").await;
        now.len() == 1 && now != before
    };
    storage.until("a new copy", copied).await;
    storage.until_evicted().await;
    assert_eq!(scene.ask("resume").await.status, 202);
    scene.controller.until_status(&scene.id, "running").await;
    storage.assert_disk_unchanged();
}
