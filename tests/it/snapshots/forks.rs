//! Forks: a new computer continues with the memory of its source, and the source continues.

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
use crate::harness::caller::id_of;
use crate::harness::simulation::Setup;
use crate::suspension::agent::RenewalBehaviour;
use crate::suspension::{SETTINGS, Scene, assert_refused};

impl Scene {
    async fn fork(&self) -> Value {
        let created = self.ask("fork").await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body
    }

    /// Number of calls that another computer's agent has counted since its boot, including this one.
    pub async fn count_of(&self, id: &str) -> String {
        let answer = self.controller.post(&format!("/computers/{id}/bash"), json!({"command": "x"})).await;
        answer.body["output"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
    }

    /// The names of all computers. Asserts that each has a machine.
    pub async fn names(&self) -> Vec<String> {
        let listed = self.controller.get("/computers").await.body;
        let all = listed["computers"].as_array().expect("a list");
        assert_eq!(self.controller.machines().len(), all.len(), "as many machines as rows");
        let mut names: Vec<String> =
            all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_beside_its_source_as_another_computer() {
    let scene = Scene::boot().await;
    scene.write_note("shared");
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    scene.controller.patch(&format!("/computers/{}/auto-stop", scene.id), json!({"minutes": 15})).await;
    let source = scene.read("").await.body;
    let fork = scene.fork().await;
    assert_eq!((&fork["name"], &fork["status"]), (&json!("desk (fork)"), &json!("running")));
    assert_eq!((&fork["workspace_id"], &fork["auto_stop_minutes"]), (&json!(scene.workspace), &json!(0)));
    for own in ["id", "instance_id", "vnc_password"] {
        assert!(fork[own].is_string() && fork[own] != source[own], "{own}: {fork}");
    }
    let id = id_of(&fork);
    // Both continue from two, independently.
    assert_eq!((scene.count().await, scene.count_of(&id).await.as_str()), (3, "3"));
    assert_eq!((scene.count().await, scene.count_of(&id).await.as_str()), (4, "4"));
    let note = scene.controller.disk(&id).join("note");
    std::fs::write(&note, "changed").expect("a copied disk");
    assert_eq!(scene.read_note(), "shared");
    {
        let renewals = scene.agents.renewals.lock().expect("no panic");
        let [renewal] = &renewals[..] else { panic!("{} renewals", renewals.len()) };
        assert!(renewal.another && renewal.seed.len() == 64, "the renewal must mark another computer");
        assert_eq!(renewal.hostname, format!("hotdesk-{}", &id[..8]));
    }
    let store = scene.controller.store().await;
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    let row = store.computer(&reference).await.expect("a store").expect("a row");
    assert!(row.saved_token.is_none() && row.agent_token.reveal() != scene.row().await.agent_token.reveal());
    // A fork through the instance handle, and a fork of a fork that is suspended and resumed.
    let handle = fork["instance_id"].as_str().expect("one");
    let again = scene.controller.post(&format!("/computers/{handle}/fork"), json!({})).await;
    assert_eq!((again.status, &again.body["name"]), (201, &json!("desk (fork) (fork)")), "{}", again.body);
    let third = id_of(&again.body);
    assert_eq!(scene.controller.command(format!("/computers/{third}/suspend")).await.status, 200);
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    assert_eq!((scene.count_of(&third).await.as_str(), scene.count_of(&id).await.as_str()), ("5", "5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_named_and_charged_like_any_computer() {
    let scene = Scene::boot_with(Setup {
        limits: Limits { max_computers: 3, ..Limits::default() },
        ..Setup::default()
    })
    .await;
    let answers = join_all([0; 5].map(|_| scene.ask("fork"))).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    let full = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("DESKTOP_LIMIT")));
    assert_eq!((created, full.count()), (2, 3), "{answers:?}");
    assert_eq!(scene.names().await, ["desk", "desk (fork 2)", "desk (fork)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forked_says_so() {
    let scene = Scene::boot().await;
    scene.suspend().await;
    let text = "Computer cannot be forked (status: suspended)";
    assert_refused(&scene.ask("fork").await, 400, Some("NOT_FORKABLE"), text);
    scene.assert_status("suspended").await;
    let unknown = format!("/computers/{}/fork", uuid::Uuid::new_v4());
    assert_refused(
        &scene.controller.post(&unknown, json!({})).await,
        404,
        Some("NOT_FOUND"),
        "Desktop not found",
    );

    let capabilities = Capabilities { copy_while_running: true, suspend: true, ..Capabilities::default() };
    let scene = Scene::boot_with(Setup { capabilities: Some(capabilities), ..Setup::default() }).await;
    let text = &format!("This computer cannot be forked: its engine copies no memory. {SETTINGS}");
    assert_refused(&scene.ask("fork").await, 400, Some("NOT_FORKABLE"), text);
    assert_eq!(scene.controller.engine.calls(Verb::Fork), 0);
    assert_eq!(scene.names().await, ["desk"]);
}

/// T18, T21 (docs/security.md).
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_fork_that_fails_anywhere_leaves_nothing_and_its_source_goes_on() {
    let scene = Scene::boot().await;
    let (text, full) =
        ("Computer could not be forked", "Computer could not be forked: the host is short of disk space");
    let unable = &format!("This computer cannot be forked: its engine copies no memory. {SETTINGS}");
    for (verb, failure, status, code, text) in [
        (Verb::Fork, Failure::Before(broken()), 500, "FORK_FAILED", text),
        (Verb::Fork, Failure::After(broken()), 500, "FORK_FAILED", text),
        (
            Verb::Fork,
            Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "x".to_owned())),
            503,
            "no_capacity",
            full,
        ),
        (Verb::Fork, Failure::Before(EngineError::Unsupported("x")), 400, "NOT_FORKABLE", unable),
        (Verb::Resume, Failure::Before(broken()), 500, "FORK_FAILED", text),
        (Verb::Resume, Failure::After(broken()), 500, "FORK_FAILED", text),
    ] {
        fail_next(&scene, verb, failure);
        assert_refused(&scene.ask("fork").await, status, Some(code), text);
        assert_eq!(scene.names().await, ["desk"]);
        scene.assert_status("running").await;
    }
    // With a failed renewal, the fork would have the token of its source: it must be removed.
    for behaviour in [RenewalBehaviour::Fails, RenewalBehaviour::Lies, RenewalBehaviour::Keeps] {
        scene.agents.behave(behaviour);
        let answer = scene.ask("fork").await;
        assert_eq!((answer.status, &answer.body["code"]), (500, &json!("FORK_FAILED")), "{}", answer.body);
        assert_eq!(scene.names().await, ["desk"]);
    }
    scene.agents.behave(RenewalBehaviour::Honest);
    assert_eq!(scene.count().await, 1);
    assert_eq!(scene.fork().await["name"], "desk (fork)");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_half_a_fork_is_undone_at_the_next_start() {
    let mut scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    for forked in [false, true] {
        let plans = Config::default().plans();
        let (id, extent, source) = (ComputerId::random(), Extent::Fork(None), scene.computer());
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
        let store = scene.controller.store().await;
        assert_eq!(store.add_copy(&copy).await.expect("stored").name, "desk (fork)");
        if forked {
            store.intend_fork(id, &scene.row().await).await.expect("stored");
            let to = hotdesk::engine::MachineSpec { id, ..scene.controller.size(&scene.id) };
            for _ in 0..2 {
                scene.controller.engine.fork(source, &to).await.expect("forked");
            }
            assert_eq!(scene.controller.machines().len(), 2);
        }
        scene.controller.restart().await;
        scene.controller.until_status(&id.to_string(), "none").await;
        scene.controller.until_status(&scene.id, "running").await;
        assert_eq!(scene.names().await, ["desk"], "forked: {forked}");
    }
    assert_eq!(scene.count().await, 2, "the source continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_acts_while_memory_is_copied_is_served_afterwards() {
    let scene = Scene::boot().await;
    fail_next(&scene, Verb::Fork, Failure::Delay(Duration::from_millis(300)));
    let acting = async {
        let started = wait::until(Duration::from_secs(30), || async {
            (scene.controller.engine.calls(Verb::Fork) == 1).then_some(())
        });
        started.await.expect("a running fork");
        scene.assert_status("running").await;
        scene.count().await
    };
    let (fork, counted) = tokio::join!(scene.fork(), acting);
    assert_eq!(counted, 1);
    assert_eq!(scene.count_of(&id_of(&fork)).await, "1", "the fork must not have the source's later call");
}
