//! Does a fork go on with what its source had in memory, as a computer of its own, and does the source go on?

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, Limits};
use hotdesk::engine::simulated::{Failure, Verb};
use hotdesk::engine::{Capabilities, Engine, EngineError};
use hotdesk::store::copies::{Extent, NewCopy};
use serde_json::{Value, json};

use super::failures::{broken, fail_next};
use crate::harness::caller::id_of;
use crate::harness::simulation::Setup;
use crate::suspension::agent::Manner;
use crate::suspension::{Scene, refused};

impl Scene {
    async fn fork(&self) -> Value {
        let made = self.ask("fork").await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body
    }

    /// How often the agent of another computer was asked, this time included.
    pub async fn count_of(&self, id: &str) -> String {
        let answer = self.house.post(&format!("/computers/{id}/bash"), json!({"command": "x"})).await;
        answer.body["output"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
    }

    /// The names of all computers; there is a machine for each.
    pub async fn names(&self) -> Vec<String> {
        let listed = self.house.get("/computers").await.body;
        let all = listed["computers"].as_array().expect("a list");
        assert_eq!(self.house.machines().len(), all.len(), "as many machines as rows");
        let mut names: Vec<String> =
            all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_beside_its_source_as_another_computer() {
    let scene = Scene::set().await;
    scene.write("shared");
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    scene.house.patch(&format!("/computers/{}/auto-stop", scene.id), json!({"minutes": 15})).await;
    let source = scene.read("").await.body;
    let fork = scene.fork().await;
    assert_eq!((&fork["name"], &fork["status"]), (&json!("desk (fork)"), &json!("running")));
    assert_eq!((&fork["workspace_id"], &fork["auto_stop_minutes"]), (&json!(scene.workspace), &json!(0)));
    for own in ["id", "instance_id", "vnc_password"] {
        assert!(fork[own].is_string() && fork[own] != source[own], "{own}: {fork}");
    }
    let id = id_of(&fork);
    // Both go on from two, each by itself.
    assert_eq!((scene.count().await, scene.count_of(&id).await.as_str()), (3, "3"));
    assert_eq!((scene.count().await, scene.count_of(&id).await.as_str()), (4, "4"));
    let note = scene.house.disk(&id).join("note");
    std::fs::write(&note, "changed").expect("copied");
    assert_eq!(scene.reads(), "shared");
    {
        let renewals = scene.agents.renewals.lock().expect("no panic");
        let [renewal] = &renewals[..] else { panic!("{} renewals", renewals.len()) };
        assert!(renewal.another && renewal.seed.len() == 64, "it is told that it is another");
        assert_eq!(renewal.hostname, format!("hotdesk-{}", &id[..8]));
    }
    let store = scene.house.store().await;
    let reference = ComputerRef::Id(id.parse().expect("an id"));
    let row = store.computer(&reference).await.expect("a store").expect("a row");
    assert!(row.saved_token.is_none() && row.agent_token.reveal() != scene.row().await.agent_token.reveal());
    // By the instance handle, as clients do (wire.md 5.2), and a fork of a fork that sleeps and wakes by itself.
    let handle = fork["instance_id"].as_str().expect("one");
    let again = scene.house.post(&format!("/computers/{handle}/fork"), json!({})).await;
    assert_eq!((again.status, &again.body["name"]), (201, &json!("desk (fork) (fork)")), "{}", again.body);
    let third = id_of(&again.body);
    assert_eq!(scene.house.command(format!("/computers/{third}/suspend")).await.status, 200);
    assert_eq!(scene.house.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    assert_eq!((scene.count_of(&third).await.as_str(), scene.count_of(&id).await.as_str()), ("5", "5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_named_and_charged_like_any_computer() {
    let scene =
        Scene::set_up(Setup { limits: Limits { max_computers: 3, ..Limits::default() }, ..Setup::default() })
            .await;
    let answers = join_all([0; 5].map(|_| scene.ask("fork"))).await;
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    let full = answers.iter().filter(|it| (it.status, &it.body["code"]) == (403, &json!("DESKTOP_LIMIT")));
    assert_eq!((won, full.count()), (2, 3), "{answers:?}");
    assert_eq!(scene.names().await, ["desk", "desk (fork 2)", "desk (fork)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forked_says_so() {
    let scene = Scene::set().await;
    scene.suspended().await;
    let text = "Computer cannot be forked (status: suspended)";
    refused(&scene.ask("fork").await, 400, Some("NOT_FORKABLE"), text);
    scene.is("suspended").await;
    let nobody = format!("/computers/{}/fork", uuid::Uuid::new_v4());
    refused(&scene.house.post(&nobody, json!({})).await, 404, Some("NOT_FOUND"), "Desktop not found");

    let able = Capabilities { copy_while_running: true, suspend: true, ..Capabilities::default() };
    let scene = Scene::set_up(Setup { capabilities: Some(able), ..Setup::default() }).await;
    let text = "This computer cannot be forked: its engine copies no memory";
    refused(&scene.ask("fork").await, 400, Some("NOT_FORKABLE"), text);
    assert_eq!(scene.house.engine.calls(Verb::Fork), 0);
    assert_eq!(scene.names().await, ["desk"]);
}

/// threats.md T18, T21.
#[tokio::test(flavor = "multi_thread")]
async fn t18_a_fork_that_fails_anywhere_leaves_nothing_and_its_source_goes_on() {
    let scene = Scene::set().await;
    let (text, full) = ("Computer could not be forked", "No host has room for this computer");
    let unable = "This computer cannot be forked: its engine copies no memory";
    for (verb, failure, status, code, text) in [
        (Verb::Fork, Failure::Before(broken()), 500, "FORK_FAILED", text),
        (Verb::Fork, Failure::After(broken()), 500, "FORK_FAILED", text),
        (Verb::Fork, Failure::Before(EngineError::NoCapacity("x".to_owned())), 503, "no_capacity", full),
        (Verb::Fork, Failure::Before(EngineError::Unsupported("x")), 400, "NOT_FORKABLE", unable),
        (Verb::Resume, Failure::Before(broken()), 500, "FORK_FAILED", text),
        (Verb::Resume, Failure::After(broken()), 500, "FORK_FAILED", text),
    ] {
        fail_next(&scene, verb, failure);
        refused(&scene.ask("fork").await, status, Some(code), text);
        assert_eq!(scene.names().await, ["desk"]);
        scene.is("running").await;
    }
    // Nobody reaches it by the token of its source.
    for manner in [Manner::Fails, Manner::Lies, Manner::Keeps] {
        scene.agents.behave(manner);
        let answer = scene.ask("fork").await;
        assert_eq!((answer.status, &answer.body["code"]), (500, &json!("FORK_FAILED")), "{}", answer.body);
        assert_eq!(scene.names().await, ["desk"]);
    }
    scene.agents.behave(Manner::Honest);
    assert_eq!(scene.count().await, 1);
    assert_eq!(scene.fork().await["name"], "desk (fork)");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_half_a_fork_is_undone_at_the_next_start() {
    let mut scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    for forked in [false, true] {
        let plans = Config::default().plans();
        let (id, extent, source) = (ComputerId::random(), Extent::Fork(None), scene.computer());
        let copy = NewCopy { id, source, extent, workspace: None, name: None, plans };
        let store = scene.house.store().await;
        assert_eq!(store.add_copy(&copy).await.expect("stored").name, "desk (fork)");
        if forked {
            store.intend_fork(id, &scene.row().await).await.expect("stored");
            let to = hotdesk::engine::MachineSpec { id, ..scene.house.size(&scene.id) };
            for _ in 0..2 {
                scene.house.engine.fork(source, &to).await.expect("forked");
            }
            assert_eq!(scene.house.machines().len(), 2);
        }
        scene.house.restart().await;
        scene.house.until_status(&id.to_string(), "none").await;
        scene.house.until_status(&scene.id, "running").await;
        assert_eq!(scene.names().await, ["desk"], "forked: {forked}");
    }
    assert_eq!(scene.count().await, 2, "the source went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_acts_while_memory_is_copied_is_served_afterwards() {
    let scene = Scene::set().await;
    fail_next(&scene, Verb::Fork, Failure::Delay(Duration::from_millis(300)));
    let acting = async {
        let begun = wait::until(Duration::from_secs(30), || async {
            (scene.house.engine.calls(Verb::Fork) == 1).then_some(())
        });
        begun.await.expect("it began");
        scene.is("running").await;
        scene.count().await
    };
    let (fork, counted) = tokio::join!(scene.fork(), acting);
    assert_eq!(counted, 1);
    assert_eq!(scene.count_of(&id_of(&fork)).await, "1", "the fork knows nothing of it");
}
