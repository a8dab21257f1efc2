//! Do suspended computers' states go to storage and come back, as interface.md "Suspend" and wire.md 5.2 say?

mod desktops;
mod faults;
mod rollback;
mod s3;
mod store;

use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::{StorageSettings, When};
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::{Value, json};

use self::store::Hostile;
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, refused};

/// Until something has happened that nobody is told of, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// A scene with a store and files on its computer's disk: several parts, some of which shrink and some not.
pub struct Vault {
    pub scene: Scene,
    pub store: Arc<Hostile>,
    note: Vec<u8>,
}

impl Vault {
    /// Everything is evicted as soon as it is copied.
    pub async fn evicting() -> Self {
        Self::open(Some(0), When::Background).await
    }

    pub async fn open(local_quota_mb: Option<u64>, when: When) -> Self {
        let store = Hostile::new();
        let objects = Some(store.objects());
        let storage = StorageSettings { objects, local_quota_mb, when, ..StorageSettings::default() };
        let scene = Scene::set_up(Setup { storage, ..Setup::default() }).await;
        let disk = scene.house.disk(&scene.id);
        std::fs::create_dir(disk.join("home")).expect("a folder");
        let mut note = vec![7_u8; 9 * MIB];
        rand::fill(&mut note[5 * MIB..]);
        std::fs::write(disk.join("home/note"), &note).expect("a file");
        std::fs::write(disk.join("empty"), "").expect("a file");
        scene.house.until_status(&scene.id, "running").await;
        Self { scene, store, note }
    }

    /// Waits for what nobody is told of.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, probe: impl Fn() -> F) {
        let found = wait::until(TIMEOUT, || async { probe().await.then_some(()) }).await;
        assert!(found.is_some(), "{what}: {:?}", self.store.names().await);
    }

    pub fn is_here(&self) -> bool {
        self.scene.house.disk(&self.scene.id).exists() || self.scene.house.memory(&self.scene.id).exists()
    }

    pub async fn until_evicted(&self) {
        self.until("evicted", || async { !self.is_here() }).await;
        self.scene.is("suspended").await;
    }

    pub async fn until_empty(&self) {
        self.until("no objects", || async { self.store.names().await.is_empty() }).await;
    }

    pub async fn sleeps_in_storage(&self) {
        self.scene.suspended().await;
        self.until_evicted().await;
    }

    /// The objects of one kind: `part-` or `manifest`.
    pub async fn objects(&self, kind: &str) -> Vec<String> {
        let names = self.store.names().await;
        names.into_iter().filter(|name| name.contains(&format!("/{kind}"))).collect()
    }

    /// As [`crate::harness::simulation::Simulation::until_status`], for what waits for a store.
    pub async fn until_status(&self, status: &str) {
        let is_so = || async { self.scene.house.status(&self.scene.id).await == status };
        self.until(status, is_so).await;
    }

    pub fn disk_is_as_it_was(&self) {
        let disk = self.scene.house.disk(&self.scene.id);
        assert!(std::fs::read(disk.join("home/note")).expect("a note") == self.note, "the note differs");
        assert_eq!(std::fs::read(disk.join("empty")).expect("a file"), b"");
    }

    pub fn plan(&self, verb: Verb, failure: Failure) {
        let call = self.scene.house.engine.calls(verb) + 1;
        self.scene.house.engine.plan(Fault { verb, call, failure });
    }

    async fn instance(&self) -> String {
        self.scene.read("").await.body["instance_id"].as_str().expect("a handle").to_owned()
    }

    /// Suspends it once it has converged.
    async fn suspend_again(&self) {
        self.until("converged", || async { self.scene.ask("suspend").await.status == 200 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_saved_in_the_background_and_a_computer_wakes_from_it() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    assert_eq!(scene.count().await, 1);
    vault.store.opens(false);
    let first = vault.instance().await;
    let suspended = scene.ask("suspend").await;
    let saving = json!({"state": "saving", "region": null});
    let expected = json!({"success": true, "status": "suspended", "storage": saving});
    assert_eq!((suspended.status, suspended.body), (200, expected.clone()));
    let again = scene.ask("suspend").await;
    assert_eq!((again.status, again.body), (200, expected));
    let told = scene.read("/suspension").await.body;
    assert_eq!(told, json!({"status": "suspended", "storage": saving}));
    assert!(vault.is_here());

    vault.store.opens(true);
    vault.until_evicted().await;
    assert_eq!(scene.read("/suspension").await.body, json!({"status": "suspended"}));
    let (parts, manifests) = (vault.objects("part-").await, vault.objects("manifest").await);
    assert!(parts.len() >= 4 && manifests.len() == 1, "{parts:?}");
    let label = format!("/{}/1-", scene.id);
    assert!(parts.iter().all(|part| part.contains(&label)), "{parts:?}");

    // In storage it is a computer as any other that sleeps.
    assert_eq!(vault.instance().await, first);
    let path = format!("/computers/{}/auto-stop", scene.id);
    assert_eq!(scene.house.patch(&path, json!({"minutes": 7})).await.status, 200);

    vault.plan(Verb::Converge, Failure::Delay(Duration::from_secs(5)));
    let woken = scene.ask("resume").await;
    assert_eq!((woken.status, &woken.body["waking"]), (202, &json!(true)), "{}", woken.body);
    assert_eq!((&woken.body["pending"], &woken.body["expected_seconds"]), (&json!(true), &json!(60)));
    let text = "Computer is still finishing waking up; retry in a minute";
    let refusal = scene.ask("suspend").await;
    refused(&refusal, 409, Some("converging"), text);
    assert_eq!(refusal.body["retry_after"], 30);
    scene.is("running").await;
    assert_eq!(scene.count().await, 2, "memory is kept");
    vault.disk_is_as_it_was();
    let second = vault.instance().await;
    assert_ne!(second, first);
    let again = scene.ask("resume").await;
    assert_eq!((again.status, &again.body["waking"]), (200, &json!(false)));

    // Both handles lead to it, wherever one is taken.
    for handle in [&first, &second, &scene.id] {
        let record = scene.house.get(&format!("/computers/{handle}")).await;
        assert_eq!((record.status, &record.body["id"]), (200, &json!(scene.id)));
        assert_eq!(record.body["instance_id"], json!(second));
        let proxied = scene.house.get(&format!("/desktops/{handle}/proxy/health")).await;
        assert_eq!((proxied.status, &proxied.body["status"]), (200, &json!("ok")), "{}", proxied.body);
    }
    vault.until_empty().await;
    vault.suspend_again().await;
    vault.until_evicted().await;
    // Acting wakes it from there as well.
    assert_eq!(scene.count().await, 3);
    let third = vault.instance().await;
    assert!(third != second && third != first);
    for handle in [&first, &second, &third] {
        assert_eq!(scene.house.get(&format!("/computers/{handle}")).await.body["id"], json!(scene.id));
    }
    vault.until_empty().await;
    assert_eq!(scene.house.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    refused(&scene.house.get(&format!("/computers/{first}")).await, 404, None, "Desktop not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_waits_for_its_copy_where_that_is_configured() {
    let vault = Vault::open(None, When::BeforeRelease).await;
    let scene = &vault.scene;
    assert_eq!(scene.count().await, 1);
    vault.store.opens(false);
    for _ in 0..3 {
        let answer = scene.ask("suspend").await;
        assert_eq!((answer.status, answer.body), (202, json!({"success": true, "status": "suspending"})));
        let told = scene.read("/suspension").await;
        assert_eq!((told.status, told.body), (200, json!({"status": "suspending"})));
    }
    assert_eq!(scene.house.engine.calls(Verb::Suspend), 1);
    vault.store.opens(true);
    vault.until_status("suspended").await;
    let answer = scene.ask("suspend").await;
    assert_eq!((answer.status, answer.body), (200, json!({"success": true, "status": "suspended"})));
    assert_eq!(vault.objects("manifest").await.len(), 1);
    assert!(vault.is_here(), "there is room for it");

    // Its state is here: a wake is an ordinary one, and the copy goes.
    let before = vault.instance().await;
    let woken = scene.ask("resume").await;
    assert_eq!((woken.status, &woken.body["status"]), (200, &json!("running")));
    assert_eq!((vault.instance().await, scene.count().await), (before, 2));
    vault.until_empty().await;

    // It may be woken, stopped or deleted meanwhile.
    for (turn, verb) in ["resume", "restart", "stop"].into_iter().enumerate() {
        vault.store.opens(false);
        assert_eq!(scene.ask("suspend").await.status, 202, "{turn}");
        assert_eq!(scene.ask(verb).await.status, 200, "{verb}");
        vault.until_status(if verb == "stop" { "stopped" } else { "running" }).await;
        vault.store.opens(true);
        vault.until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_resumed_stopped_or_deleted_while_its_copy_is_saved() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    for (verb, goal) in [("resume", "running"), ("restart", "running"), ("stop", "stopped")] {
        vault.store.opens(false);
        scene.suspended().await;
        assert!(scene.read("/suspension").await.body["storage"].is_object());
        let answer = scene.ask(verb).await;
        assert_eq!(answer.status, 200, "{verb}: {}", answer.body);
        vault.until_status(goal).await;
        vault.store.opens(true);
        vault.until_empty().await;
        vault.disk_is_as_it_was();
    }
    assert_eq!(scene.ask("start").await.status, 200);
    vault.until_status("running").await;
    // While it is saved, and when it is in storage.
    vault.store.opens(false);
    scene.suspended().await;
    assert_eq!(scene.house.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    vault.store.opens(true);
    vault.until_empty().await;
    assert_eq!(scene.house.machines(), [""; 0]);

    let vault = Vault::evicting().await;
    vault.sleeps_in_storage().await;
    assert_eq!(vault.scene.house.delete(&format!("/computers/{}", vault.scene.id)).await.status, 200);
    vault.until_empty().await;
    assert_eq!(vault.scene.house.machines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_in_storage_has_its_disk() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    vault.sleeps_in_storage().await;
    let handle = vault.instance().await;
    assert_eq!(scene.ask("stop").await.status, 200);
    vault.until_status("stopped").await;
    vault.disk_is_as_it_was();
    assert!(!scene.house.memory(&scene.id).exists());
    vault.until_empty().await;
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!((scene.count().await, vault.instance().await), (1, handle), "booted from its disk");
    vault.sleeps_in_storage().await;
    assert_eq!(scene.ask("restart").await.status, 200);
    assert_eq!(scene.count().await, 1);
    vault.disk_is_as_it_was();
    vault.until_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_suspended_first_makes_room_first() {
    // Three of about 9 MiB where two have room.
    let vault = Vault::open(Some(20), When::Background).await;
    let house = &vault.scene.house;
    let mut ids = vec![vault.scene.id.clone()];
    for name in ["second", "third"] {
        let id = house.computer(&vault.scene.workspace, name).await;
        std::fs::write(house.disk(&id).join("note"), &vault.note).expect("a file");
        ids.push(id);
    }
    // Not in the order in which they were made.
    for at in [1, 2, 0] {
        house.until_status(&ids[at], "running").await;
        assert_eq!(house.post(&format!("/computers/{}/suspend", ids[at]), json!({})).await.status, 200);
        let path = format!("/computers/{}/suspension", ids[at]);
        vault.until("saved", || async { house.get(&path).await.body["storage"].is_null() }).await;
    }
    let here = |id: &str| house.disk(id).exists();
    vault.until("the first made room", || async { !here(&ids[1]) }).await;
    assert!(here(&ids[0]) && here(&ids[2]), "there is room for two");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_nothing_is_told_of_one() {
    let scene = Scene::set().await;
    scene.suspended().await;
    assert_eq!(scene.read("/suspension").await.body.get("storage"), None::<&Value>);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_parts_with_the_copy_of_what_was() {
    let vault = Vault::evicting().await;
    let scene = &vault.scene;
    let path = format!("/computers/{}/snapshots", scene.id);
    let kept = scene.house.post(&path, json!({"memory": true})).await;
    assert_eq!(kept.status, 201, "{}", kept.body);
    std::fs::write(scene.house.disk(&scene.id).join("home/note"), "later").expect("a file");
    vault.sleeps_in_storage().await;
    let before = vault.objects("manifest").await;
    let back = json!({"snapshot_id": kept.body["id"]});
    let answer = scene.house.post(&format!("/computers/{}/rollback", scene.id), back).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("suspended")), "{}", answer.body);
    // What it is now is copied, and the copy of what it was goes.
    let copied = || async {
        let now = vault.objects("manifest").await;
        now.len() == 1 && now != before
    };
    vault.until("another copy", copied).await;
    vault.until_evicted().await;
    assert_eq!(scene.ask("resume").await.status, 202);
    scene.house.until_status(&scene.id, "running").await;
    vault.disk_is_as_it_was();
}
