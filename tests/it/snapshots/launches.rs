//! Launches from a snapshot: many at once, each an independent computer, whatever happens to the source.

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, Limits};
use hotdesk::engine::simulated::{Failure, Verb};
use hotdesk::engine::{Capabilities, Engine, EngineError, Shortage};
use hotdesk::store::fleet::copies::{Extent, NewCopy};
use serde_json::{Value, json};

use super::failures::{broken, fail_next};
use crate::harness::agent::HttpAnswer;
use crate::harness::caller::id_of;
use crate::harness::simulation::Setup;
use crate::suspension::agent::RenewalBehaviour;
use crate::suspension::{SETTINGS, Scene, assert_refused, hold_next};

impl Scene {
    async fn launch(&self, snapshot: &str) -> HttpAnswer {
        self.controller
            .post(&format!("/computers/{}/fork", self.id), json!({ "snapshot_id": snapshot }))
            .await
    }

    async fn assert_launch(&self, snapshot: &str) -> Value {
        let created = self.launch(snapshot).await;
        assert_eq!((created.status, &created.body["status"]), (201, &json!("running")), "{}", created.body);
        created.body
    }

    async fn until_called(&self, verb: Verb, times: u32) {
        let called = wait::until(Duration::from_secs(30), || async {
            (self.controller.engine.calls(verb) == times).then_some(())
        });
        called.await.expect("a running call");
    }

    async fn delete_snapshot(&self, snapshot: &str) -> HttpAnswer {
        self.controller.delete(&format!("/computers/{}/snapshots/{snapshot}", self.id)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn computers_launched_from_one_snapshot_are_computers_of_their_own() {
    let scene = Scene::boot().await;
    scene.write_note("early");
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    let snapshot = scene.create_snapshot(true).await;
    scene.write_note("late");
    // The source gets another size and another token and is suspended: a launch does not need it.
    let size = json!({"vcpus": 2, "disk_size_gb": 20, "bandwidth_limit_mbps": 50});
    assert_eq!(scene.controller.post(&format!("/computers/{}/resize", scene.id), size).await.status, 200);
    assert_eq!(scene.ask("restart").await.status, 200);
    scene.suspend().await;

    let answers = join_all([0; 4].map(|_| scene.launch(&snapshot))).await;
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(
        scene.names().await,
        ["desk", "desk (fork 2)", "desk (fork 3)", "desk (fork 4)", "desk (fork)"]
    );
    scene.assert_status("suspended").await;
    let (store, source) = (scene.controller.store().await, scene.read("").await.body);
    let mut secrets = vec![scene.row().await.agent_token];
    for launched in answers.iter().map(|answer| &answer.body) {
        let id = id_of(launched);
        // The size at the time of the snapshot, which its memory depends on.
        let size = ["cpu", "ram", "disk_size_gb", "auto_stop_minutes"].map(|field| launched[field].as_f64());
        assert_eq!(size, [1.0, 4.0, 8.0, 0.0].map(Some), "{launched}");
        assert_eq!(launched["workspace_id"], source["workspace_id"]);
        assert_eq!(scene.count_of(&id).await, "3", "it continues from two");
        let note = scene.controller.disk(&id).join("note");
        assert_eq!(std::fs::read_to_string(&note).expect("a copied disk"), "early");
        std::fs::write(&note, &id).expect("a disk of its own");
        let row = store.computer(&ComputerRef::Id(id.parse().expect("an id"))).await.expect("a store");
        let row = row.expect("a row");
        assert!(row.saved_token.is_none() && row.hardware.bandwidth_mbps == 50);
        secrets.extend([row.agent_token, row.vnc_password]);
    }
    let mut different: Vec<&str> = secrets.iter().map(|secret| secret.reveal()).collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), secrets.len(), "all secrets must differ");
    {
        let renewals = scene.agents.renewals.lock().expect("no panic");
        assert!(
            renewals.len() == 4 && renewals.iter().all(|it| it.another),
            "every renewal must mark another computer"
        );
        let mut seeds: Vec<&str> = renewals.iter().map(|it| it.seed.as_str()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 4);
    }
    // The launched computers need neither the snapshot nor its source.
    assert_eq!(scene.delete_snapshot(&snapshot).await.status, 200);
    assert_refused(&scene.launch(&snapshot).await, 404, Some("NOT_FOUND"), "Snapshot not found");
    assert_eq!(scene.read_note(), "late");
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    for launched in answers.iter().map(|answer| &answer.body) {
        let id = id_of(launched);
        assert_eq!(scene.controller.command(format!("/computers/{id}/suspend")).await.status, 200);
        assert_eq!(scene.count_of(&id).await, "4", "an independent suspend and resume");
        assert_eq!(std::fs::read_to_string(scene.controller.disk(&id).join("note")).expect("a file"), id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn launches_are_named_and_charged_like_any_computer() {
    let limits = Limits { max_computers: 4, ..Limits::default() };
    let scene = Scene::boot_with(Setup { limits, ..Setup::default() }).await;
    let snapshot = scene.create_snapshot(true).await;
    let own = json!({"snapshot_id": snapshot, "name": " mine "});
    let fork = format!("/computers/{}/fork", scene.id);
    let mine = scene.controller.post(&fork, own.clone()).await;
    assert_eq!((mine.status, &mine.body["name"]), (201, &json!("mine")), "{}", mine.body);
    assert_refused(
        &scene.controller.post(&fork, own).await,
        409,
        Some("NAME_TAKEN"),
        "A computer named \"mine\" already exists in this workspace",
    );
    for wrong in [json!({"snapshot_id": 1}), json!({"name": ""}), json!([])] {
        let answer = scene.controller.post(&fork, wrong.clone()).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_REQUEST")), "{wrong}");
    }
    let answers = join_all([0; 5].map(|_| scene.launch(&snapshot))).await;
    let (created, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((created.len(), lost.len()), (2, 3), "{answers:?}");
    let full = |it: &&HttpAnswer| (it.status, &it.body["code"]) == (403, &json!("DESKTOP_LIMIT"));
    assert!(lost.iter().all(full), "{lost:?}");
    assert_eq!(scene.names().await.len(), 4);
    // A delete frees the slot of a launch, once.
    assert_eq!(scene.controller.delete(&format!("/computers/{}", id_of(&mine.body))).await.status, 200);
    scene.assert_launch(&snapshot).await;
    let over = scene.launch(&snapshot).await;
    assert_eq!((over.status, &over.body["code"]), (403, &json!("DESKTOP_LIMIT")), "{}", over.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_launched_says_so() {
    let scene = Scene::boot().await;
    let disk = scene.create_snapshot(false).await;
    let text = "This snapshot cannot be forked: it holds no memory";
    assert_refused(&scene.launch(&disk).await, 400, Some("NOT_FORKABLE"), text);
    for nothing in ["x".to_owned(), uuid::Uuid::new_v4().to_string()] {
        assert_refused(&scene.launch(&nothing).await, 404, Some("NOT_FOUND"), "Snapshot not found");
    }
    // A snapshot belongs to one computer.
    let memory = scene.create_snapshot(true).await;
    let other = scene.controller.computer(&scene.workspace, "other").await;
    let foreign =
        scene.controller.post(&format!("/computers/{other}/fork"), json!({ "snapshot_id": memory })).await;
    assert_refused(&foreign, 404, Some("NOT_FOUND"), "Snapshot not found");
    assert_eq!(scene.controller.engine.calls(Verb::Launch), 0);

    let capabilities = Capabilities { copy_while_running: true, suspend: true, ..Capabilities::default() };
    let scene = Scene::boot_with(Setup { capabilities: Some(capabilities), ..Setup::default() }).await;
    let text = &format!("This computer cannot be forked: its engine copies no memory. {SETTINGS}");
    assert_refused(&scene.launch(&scene.create_snapshot(false).await).await, 400, Some("NOT_FORKABLE"), text);
    assert_eq!(scene.names().await, ["desk"]);
}

/// T18, T21 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_launch_that_fails_anywhere_leaves_nothing() {
    let scene = Scene::boot().await;
    let snapshot = scene.create_snapshot(true).await;
    let (text, full) =
        ("Computer could not be forked", "Computer could not be forked: the host is short of disk space");
    let unable = &format!("This computer cannot be forked: its engine copies no memory. {SETTINGS}");
    let damaged = "The snapshot or copied memory of this fork is damaged or missing";
    for verb in [Verb::Launch, Verb::Resume] {
        for (failure, status, code, text) in [
            (Failure::Before(broken()), 500, "FORK_FAILED", text),
            (Failure::After(broken()), 500, "FORK_FAILED", text),
            (
                Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "x".to_owned())),
                503,
                "no_capacity",
                full,
            ),
            (Failure::Before(EngineError::Unsupported("x")), 400, "NOT_FORKABLE", unable),
            (Failure::Before(EngineError::Damaged("x".to_owned())), 503, "snapshot_unavailable", damaged),
        ] {
            fail_next(&scene, verb, failure);
            assert_refused(&scene.launch(&snapshot).await, status, Some(code), text);
            assert_eq!(scene.names().await, ["desk"]);
            scene.assert_status("running").await;
        }
    }
    // With a failed renewal, the launch would have the token of its memory: it must be removed.
    for behaviour in [RenewalBehaviour::Fails, RenewalBehaviour::Lies, RenewalBehaviour::Keeps] {
        scene.agents.behave(behaviour);
        let answer = scene.launch(&snapshot).await;
        assert_eq!((answer.status, &answer.body["code"]), (500, &json!("FORK_FAILED")), "{}", answer.body);
        assert_eq!(scene.names().await, ["desk"]);
    }
    scene.agents.behave(RenewalBehaviour::Honest);
    assert_eq!(scene.assert_launch(&snapshot).await["name"], "desk (fork)");
    assert_eq!(
        (scene.count().await, scene.snapshots().await.len()),
        (1, 1),
        "the source and its snapshot stay"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_half_a_launch_is_undone_at_the_next_start() {
    let mut scene = Scene::boot().await;
    let snapshot = scene.create_snapshot(true).await;
    let snapshot_id = snapshot.parse().expect("an id");
    for launched in [false, true] {
        let (id, extent, source) = (ComputerId::random(), Extent::Fork(Some(snapshot_id)), scene.computer());
        let plans = Config::default().plans();
        let copy = NewCopy {
            id,
            source,
            extent,
            workspace: None,
            name: None,
            encrypt: false,
            account_secrets: false,
            plans,
        };
        let stored = scene.controller.store().await.add_copy(&copy).await.expect("stored");
        let token = scene.row().await.agent_token;
        assert_eq!(stored.saved_token.expect("a saved token").reveal(), token.reveal());
        if launched {
            let to = hotdesk::engine::MachineSpec { id, ..scene.controller.size(&scene.id) };
            for _ in 0..2 {
                scene.controller.engine.launch(source, snapshot_id.0, &to).await.expect("launched");
            }
        }
        scene.controller.restart().await;
        scene.controller.until_status(&id.to_string(), "none").await;
        scene.controller.until_status(&scene.id, "running").await;
        assert_eq!(scene.names().await, ["desk"], "launched: {launched}");
    }
    scene.assert_launch(&snapshot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_removed_meanwhile_takes_no_launch_with_it() {
    let scene = Scene::boot().await;
    for (number, verb) in [Verb::Launch, Verb::Resume].into_iter().enumerate() {
        let snapshot = scene.create_snapshot(true).await;
        let times = scene.controller.engine.calls(verb) + 1;
        fail_next(&scene, verb, Failure::Delay(Duration::from_secs(2)));
        let removed = async {
            scene.until_called(verb, times).await;
            scene.delete_snapshot(&snapshot).await
        };
        let (launched, removed) = tokio::join!(scene.assert_launch(&snapshot), removed);
        assert_eq!(removed.status, 200, "{}", removed.body);
        assert_eq!(scene.count_of(&id_of(&launched)).await, "1", "{number}");
        assert!(scene.snapshots().await.is_empty());
    }
    // A launch whose turn comes after the removal is refused.
    let snapshot = scene.create_snapshot(true).await;
    let times = scene.controller.engine.calls(Verb::RemoveSnapshot) + 1;
    let held = hold_next(&scene, Verb::RemoveSnapshot);
    let late = async {
        scene.until_called(Verb::RemoveSnapshot, times).await;
        let late = scene.launch(&snapshot).await;
        held.cancel();
        late
    };
    let (removed, late) = tokio::join!(scene.delete_snapshot(&snapshot), late);
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_refused(&late, 409, Some("CONFLICT"), "The snapshot is not ready (state: deleting)");
    assert_eq!(scene.names().await, ["desk", "desk (fork 2)", "desk (fork)"]);
}
