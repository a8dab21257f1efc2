//! Does every verb come to a good end when any step of it fails, when its controller is killed before or after any step, and
//! when it is asked twice? Verbs times steps times what goes wrong; the steps are those that the engine counts. (threats.md T18)

use std::time::Duration;

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::base::wait;
use hotdesk::domain::snapshot::State;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Engine, EngineError, Observation};
use hotdesk::store::Store;
use hotdesk::store::snapshots::Snapshot;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::caller::{Caller, id_of};
use crate::harness::simulation::Simulation;

/// What a client asks for.
pub struct Ask {
    pub name: &'static str,
    /// What the computer is before; `None`: there is none.
    pub from: Option<&'static str>,
    method: Method,
    /// Below the computer's own path; `{kept}`, here or in the body, is a snapshot with memory that is made before.
    path: &'static str,
    body: Value,
    /// What the computer, or its copy, is afterwards.
    pub goal: &'static str,
}

impl Ask {
    /// The request: about this computer and its snapshot, or to make one in this workspace.
    pub fn request(&self, house: &Caller, workspace: &str, id: Option<&str>, kept: &str) -> RequestBuilder {
        let Some(id) = id else {
            let body = json!({"workspace_id": workspace, "name": "desk"});
            return house.request(Method::POST, "/computers").json(&body);
        };
        let path = format!("/computers/{id}/{}", self.path.replace(KEPT, kept));
        let mut body = self.body.clone();
        if body["snapshot_id"] == KEPT {
            body["snapshot_id"] = json!(kept);
        }
        house.request(self.method.clone(), path.trim_end_matches('/')).json(&body)
    }

    /// Whether it begins with a snapshot with memory.
    pub fn goes_by_a_snapshot(&self) -> bool {
        self.path.contains(KEPT) || self.body["snapshot_id"] == KEPT
    }

    /// Whether memory that goes on is copied for it.
    pub fn copies_memory(&self) -> bool {
        self.goes_by_a_snapshot() || self.name == "fork" || self.body["memory"] == true
    }
}

pub fn asks() -> Vec<Ask> {
    let post = |name, from, body, goal| Ask { name, from, method: Method::POST, path: name, body, goal };
    let nothing = || json!({});
    let kept = || json!({"name": "copy", "snapshot_id": KEPT});
    let size = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20, "bandwidth_limit_mbps": 50});
    let running = Some("running");
    vec![
        post("create", None, nothing(), "running"),
        post("clone", running, json!({"name": "copy"}), "running"),
        post("fork", running, json!({"name": "copy"}), "running"),
        Ask { path: "fork", ..post("launch", running, kept(), "running") },
        Ask {
            path: "snapshots",
            ..post("snapshot with memory", running, json!({"memory": true}), "running")
        },
        post("rollback", running, kept(), "running"),
        post("suspend", running, nothing(), "suspended"),
        post("resume", Some("suspended"), nothing(), "running"),
        post("resize", running, size, "running"),
        post("stop", running, nothing(), "stopped"),
        post("stop", Some("suspended"), nothing(), "stopped"),
        post("start", Some("stopped"), nothing(), "running"),
        post("restart", running, nothing(), "running"),
        post("restart", Some("suspended"), nothing(), "running"),
        Ask { path: "snapshots", ..post("snapshot", running, nothing(), "running") },
        Ask { method: Method::DELETE, path: "", ..post("delete", running, nothing(), "none") },
        Ask { method: Method::DELETE, path: "", ..post("delete", Some("suspended"), nothing(), "none") },
        Ask {
            method: Method::DELETE,
            path: "snapshots/{kept}",
            ..post("remove snapshot", running, nothing(), "running")
        },
    ]
}

/// Stands for the snapshot that is made before.
const KEPT: &str = "{kept}";

/// Every step that the engine takes for a verb of the API.
const STEPS: [Verb; 15] = [
    Verb::Create,
    Verb::Start,
    Verb::Stop,
    Verb::Destroy,
    Verb::Observe,
    Verb::Resize,
    Verb::CopyDisk,
    Verb::Fork,
    Verb::Launch,
    Verb::Snapshot,
    Verb::Rollback,
    Verb::RemoveSnapshot,
    Verb::Suspend,
    Verb::Resume,
    Verb::DiscardMemory,
];

/// How long everything may take to come to rest.
const TIMEOUT: Duration = Duration::from_secs(20);

fn broken() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

/// What a verb begins with.
struct Before {
    id: Option<String>,
    snapshot: String,
}

/// A house in which one case after another is set up and taken away.
struct Scene {
    house: Simulation,
    workspace: String,
}

impl Scene {
    async fn set() -> Self {
        let house = Simulation::boot().await;
        let workspace = house.workspace("w").await;
        Self { house, workspace }
    }

    /// A computer with the status that a verb begins with, and its snapshot; nothing where it begins with none.
    async fn prepared(&self, ask: &Ask) -> Before {
        let Some(from) = ask.from else { return Before { id: None, snapshot: String::new() } };
        let id = self.house.computer(&self.workspace, "desk").await;
        let mut snapshot = String::new();
        if ask.goes_by_a_snapshot() {
            let kept = self.house.post(&format!("/computers/{id}/snapshots"), json!({"memory": true})).await;
            assert_eq!(kept.status, 201, "{}", kept.body);
            snapshot = id_of(&kept.body);
        }
        let way = match from {
            "stopped" => Some("stop"),
            "suspended" => Some("suspend"),
            _ => None,
        };
        if let Some(way) = way {
            let there = self.house.post(&format!("/computers/{id}/{way}"), json!({})).await;
            assert_eq!(there.status, 200, "{}", there.body);
            self.house.until_status(&id, from).await;
        }
        Before { id: Some(id), snapshot }
    }

    fn request(&self, ask: &Ask, before: &Before) -> RequestBuilder {
        ask.request(&self.house, &self.workspace, before.id.as_deref(), &before.snapshot)
    }

    async fn listed(&self) -> Vec<Value> {
        self.house.get("/computers").await.body["computers"].as_array().expect("a list").clone()
    }

    /// The computers, once each has one of these statuses.
    async fn at_rest(&self, at: &[&str], name: &str) -> Vec<Value> {
        let rested = wait::until(TIMEOUT, || async {
            let listed = self.listed().await;
            listed
                .iter()
                .all(|one| at.contains(&one["status"].as_str().unwrap_or_default()))
                .then_some(listed)
        });
        let rested = rested.await;
        match rested {
            Some(listed) => listed,
            None => panic!("{name}: not at rest: {:?}", self.listed().await),
        }
    }

    /// Asserts that rows and machines agree, and that no row waits for something that nobody does.
    async fn agrees(&self, listed: &[Value], name: &str) {
        let mut ids: Vec<String> = listed.iter().map(id_of).collect();
        ids.sort();
        assert_eq!(self.house.machines(), ids, "{name}: machines and rows");
        let store = self.house.store().await;
        for text in ids {
            let id: ComputerId = text.parse().expect("an id");
            let row = store.computer(&ComputerRef::Id(id)).await.expect("the store").expect("a row");
            assert!(row.wanted.is_none(), "{name}: {:?}", row.wanted);
            assert!(row.saved_token.is_none() || row.status.name() == "suspended", "{name}: a token is kept");
            self.keeps(&store, id, name).await;
            let seen = self.house.engine.observe(id).await.expect("seen");
            let fits = match (row.status.name(), &seen) {
                ("running", Observation::Running { generation, .. }) => *generation == row.generation,
                ("stopped", Observation::Stopped) | ("suspended", Observation::Suspended { .. }) => true,
                // A stop that failed leaves what it could not end.
                ("error", seen) => *seen != Observation::Absent,
                _ => false,
            };
            assert!(
                fits,
                "{name}: the row says {:?} of boot {}, {seen:?} is seen",
                row.status, row.generation
            );
            let kept = wait::until(TIMEOUT, || async {
                let (rows, there) = (store.snapshots(id).await, self.house.engine.snapshots(id).await);
                let (rows, there) = (rows.expect("rows"), there.expect("a list"));
                // One whose removal failed is on its way out until somebody tries again.
                let kept = |row: &Snapshot| match row.state {
                    State::Creating => false,
                    State::Ready => there.contains(&row.id.0),
                    State::Deleting => true,
                };
                let known = there.iter().all(|id| rows.iter().any(|row| row.id.0 == *id));
                (rows.iter().all(kept) && known).then_some(())
            });
            assert!(kept.await.is_some(), "{name}: half a snapshot");
            if row.status.name() == "running" {
                let size = self.house.size(&text);
                assert_eq!(size.cpu, row.hardware.cpu, "{name}: the machine's size");
                assert_eq!(
                    size.memory_bytes >> 30,
                    u64::from(row.hardware.ram_gb),
                    "{name}: the machine's size"
                );
            }
        }
    }

    /// Asserts that a computer's snapshots are those of its rows, once what was cut short is undone.
    async fn keeps(&self, store: &Store, id: ComputerId, name: &str) {
        let look = || async {
            let rows = store.snapshots(id).await.expect("the store");
            let there = self.house.engine.snapshots(id).await.expect("a list");
            let known = there.iter().all(|kept| rows.iter().any(|row| row.id.0 == *kept));
            let whole = |row: &Snapshot| match row.state {
                State::Ready => there.contains(&row.id.0),
                // What could not be removed can be asked for again.
                State::Deleting => true,
                State::Creating => false,
            };
            (known && rows.iter().all(whole)).then_some(()).ok_or((rows, there))
        };
        let agreed = wait::until(TIMEOUT, || async { look().await.ok() });
        if agreed.await.is_none() {
            panic!("{name}: snapshots and rows: {:?}", look().await);
        }
    }

    /// Takes everything away that a case left, and asserts that nothing of it stays and its names are free.
    async fn is_cleared(&self, name: &str) {
        for one in self.listed().await {
            let removed = self.house.delete(&format!("/computers/{}", id_of(&one))).await;
            assert_eq!(removed.status, 200, "{name}: {}", removed.body);
        }
        assert_eq!(self.listed().await, Vec::<Value>::new(), "{name}");
        assert_eq!(self.house.machines(), Vec::<String>::new(), "{name}");
    }

    /// The steps of a verb: which call of which, counted from its beginning.
    async fn steps(&self, ask: &Ask) -> Vec<(Verb, u32)> {
        let prepared = self.prepared(ask).await;
        let before = STEPS.map(|step| self.house.engine.calls(step));
        let done = answered(self.request(ask, &prepared)).await;
        assert!(done.status < 300, "{}: {}", ask.name, done.body);
        let listed = self.at_rest(&["running", "stopped", "suspended"], ask.name).await;
        let reached =
            listed.iter().all(|one| one["status"] == ask.goal) && listed.is_empty() == (ask.goal == "none");
        assert!(reached, "{}: {listed:?}", ask.name);
        let taken = STEPS.iter().zip(before);
        let steps: Vec<_> = taken
            .flat_map(|(step, before)| {
                (1..=self.house.engine.calls(*step) - before).map(move |turn| (*step, turn))
            })
            .collect();
        assert!(!steps.is_empty(), "{} takes no step", ask.name);
        self.is_cleared(ask.name).await;
        steps
    }

    fn plan(&self, (verb, turn): (Verb, u32), failure: Failure) {
        let call = self.house.engine.calls(verb) + turn;
        self.house.engine.plan(Fault { verb, call, failure });
    }
}

/// Asserts that a failure is told as one and tells nothing of the inside.
fn is_told(answer: &Answered, name: &str) {
    let whole = answer.status < 300 || answer.body["error"].is_string();
    assert!(
        whole && !answer.body.to_string().contains("on purpose"),
        "{name}: {} {}",
        answer.status,
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_every_step_of_every_verb_fails_once() {
    let (scene, mut cases) = (Scene::set().await, 0);
    for ask in asks() {
        for step in scene.steps(&ask).await {
            for failure in [Failure::Before(broken()), Failure::After(broken())] {
                // What a resize failed at is as before: every engine's promise.
                if step.0 == Verb::Resize && matches!(failure, Failure::After(_)) {
                    continue;
                }
                let name = format!("{} from {:?}, {step:?}, {failure:?}", ask.name, ask.from);
                let before = scene.prepared(&ask).await;
                scene.plan(step, failure);
                let answer = answered(scene.request(&ask, &before)).await;
                is_told(&answer, &name);
                let listed = scene.at_rest(&["running", "stopped", "suspended", "error"], &name).await;
                scene.agrees(&listed, &name).await;
                let made = |one: &Value| Some(id_of(one)) != before.id;
                if ["create", "clone", "fork", "launch"].contains(&ask.name) {
                    // All of it or nothing.
                    assert_eq!(listed.iter().any(made), answer.status == 201, "{name}: {listed:?}");
                }
                scene.is_cleared(&name).await;
                cases += 1;
            }
        }
    }
    println!("{cases} steps failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_the_controller_is_killed_before_and_after_every_step_of_every_verb() {
    let (mut scene, mut cases) = (Scene::set().await, 0);
    for ask in asks() {
        for step in scene.steps(&ask).await {
            for done in [false, true] {
                let name =
                    format!("{} from {:?}, killed at {step:?}, its work done: {done}", ask.name, ask.from);
                let before = scene.prepared(&ask).await;
                scene.plan(step, Failure::Never { done });
                let request = scene.request(&ask, &before);
                // What is answered before that step is reached goes on all the same.
                let asked = async {
                    drop(request.send().await);
                    std::future::pending::<()>().await;
                };
                let struck =
                    wait::until(TIMEOUT, || async { (scene.house.engine.stuck() == 1).then_some(()) });
                let struck = tokio::select! {
                    () = asked => None,
                    struck = struck => struck,
                };
                assert!(struck.is_some(), "{name}: that step is not reached");
                scene.house.kill().await;
                let listed = scene.at_rest(&["running", "stopped", "suspended"], &name).await;
                scene.agrees(&listed, &name).await;
                // As it was, or as was asked for; a copy or a new one is whole, or nobody was told of it.
                for one in &listed {
                    let status = one["status"].as_str();
                    let old = Some(id_of(one)) == before.id;
                    let fine = status == Some(ask.goal) || old && status == ask.from;
                    assert!(fine, "{name}: {one}");
                }
                let lost = before.id.is_some() && listed.is_empty() && ask.goal != "none";
                assert!(!lost, "{name}: the computer is gone");
                scene.is_cleared(&name).await;
                cases += 1;
            }
        }
    }
    println!("{cases} controllers were killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_every_verb_is_asked_twice() {
    let scene = Scene::set().await;
    for ask in asks() {
        let name = format!("{} from {:?} twice", ask.name, ask.from);
        let before = scene.prepared(&ask).await;
        let both = (scene.request(&ask, &before), scene.request(&ask, &before));
        let (first, second) = tokio::join!(answered(both.0), answered(both.1));
        // 202: under way already, by the other.
        let fine = |answer: &Answered| [200, 201, 202, 404, 409].contains(&answer.status);
        assert!(fine(&first) && fine(&second), "{name}: {} {}", first.body, second.body);
        assert!(first.status < 300 || second.status < 300, "{name}: {} {}", first.body, second.body);
        let listed = scene.at_rest(&["running", "stopped", "suspended"], &name).await;
        scene.agrees(&listed, &name).await;
        let expected = match ask.name {
            "delete" => 0,
            "clone" | "fork" | "launch" => 2,
            _ => 1,
        };
        assert_eq!(listed.len(), expected, "{name}: {listed:?}");
        assert!(listed.iter().all(|one| one["status"] == ask.goal), "{name}: {listed:?}");
        scene.is_cleared(&name).await;
    }
}
