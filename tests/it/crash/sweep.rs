//! Failures, kills and repetitions at every step of every verb.
//!
//! T18 (docs/security.md). The simulated engine counts the steps: each fails once, each is the last one of a
//! controller, and each request is sent twice.

use std::time::Duration;

use hotdesk::base::ids::{ComputerId, ComputerRef};
use hotdesk::base::wait;
use hotdesk::domain::computer::snapshot::SnapshotState;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::engine::{Engine, EngineError, Observation};
use hotdesk::store::Store;
use hotdesk::store::fleet::snapshots::Snapshot;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::{Caller, id_of};
use crate::harness::simulation::Simulation;

/// A request of a client.
pub struct Operation {
    pub name: &'static str,
    /// Status of the computer before the request; `None` if there is none.
    pub from: Option<&'static str>,
    method: Method,
    /// Below the computer's own path, or that of the operator; `{snapshot}`, here or in the body, is a memory snapshot that is
    /// made before.
    path: &'static str,
    body: Value,
    /// Status of the computer, or of its copy, after the request.
    pub goal: &'static str,
}

impl Operation {
    /// The request about this computer and its snapshot, or a create in this workspace.
    pub fn request(
        &self,
        controller: &Caller,
        workspace: &str,
        id: Option<&str>,
        snapshot: &str,
    ) -> RequestBuilder {
        let Some(id) = id else {
            let body = json!({"workspace_id": workspace, "name": "desk"});
            return controller.request(Method::POST, "/computers").json(&body);
        };
        let path = self.path.replace(SNAPSHOT_PLACEHOLDER, snapshot);
        let path = match path.strip_prefix(OF_OPERATOR) {
            Some(verb) => format!("/operator/computers/{id}{verb}"),
            None => format!("/computers/{id}/{path}"),
        };
        let mut body = self.body.clone();
        if body["snapshot_id"] == SNAPSHOT_PLACEHOLDER {
            body["snapshot_id"] = json!(snapshot);
        }
        controller.request(self.method.clone(), path.trim_end_matches('/')).json(&body)
    }

    /// Whether it begins with a memory snapshot.
    pub fn needs_snapshot(&self) -> bool {
        self.path.contains(SNAPSHOT_PLACEHOLDER) || self.body["snapshot_id"] == SNAPSHOT_PLACEHOLDER
    }

    /// Whether it copies the memory of a computer that keeps running.
    pub fn copies_memory(&self) -> bool {
        self.needs_snapshot() || self.name == "fork" || self.body["memory"] == true
    }
}

pub fn operations() -> Vec<Operation> {
    let post =
        |name, from, body, goal| Operation { name, from, method: Method::POST, path: name, body, goal };
    let no_body = || json!({});
    let launch = json!({"name": "copy", "snapshot_id": SNAPSHOT_PLACEHOLDER});
    let rollback = json!({"snapshot_id": SNAPSHOT_PLACEHOLDER});
    let size = json!({"vcpus": 2, "mem_gb": 8, "disk_size_gb": 20, "bandwidth_limit_mbps": 50});
    let running = Some("running");
    vec![
        post("create", None, no_body(), "running"),
        post("clone", running, json!({"name": "copy"}), "running"),
        post("fork", running, json!({"name": "copy"}), "running"),
        Operation { path: "fork", ..post("launch", running, launch, "running") },
        Operation {
            path: "snapshots",
            ..post("snapshot with memory", running, json!({"memory": true}), "running")
        },
        post("rollback", running, rollback, "running"),
        post("suspend", running, no_body(), "suspended"),
        post("resume", Some("suspended"), no_body(), "running"),
        post("resize", running, size, "running"),
        post("stop", running, no_body(), "stopped"),
        post("stop", Some("suspended"), no_body(), "stopped"),
        post("start", Some("stopped"), no_body(), "running"),
        post("restart", running, no_body(), "running"),
        post("restart", Some("suspended"), no_body(), "running"),
        Operation { path: "snapshots", ..post("snapshot", running, no_body(), "running") },
        Operation { method: Method::DELETE, path: "", ..post("delete", running, no_body(), "none") },
        Operation {
            method: Method::DELETE,
            path: "",
            ..post("delete", Some("suspended"), no_body(), "none")
        },
        Operation {
            method: Method::DELETE,
            path: "snapshots/{snapshot}",
            ..post("remove snapshot", running, no_body(), "running")
        },
    ]
}

/// The operations of [`operations`], and those that need several hosts, which only the simulation has.
fn simulated_operations() -> Vec<Operation> {
    let moves = ["running", "stopped", "suspended"].map(|status| Operation {
        name: "move",
        from: Some(status),
        method: Method::POST,
        path: "operator/move",
        body: json!({}),
        goal: status,
    });
    operations().into_iter().chain(moves).collect()
}

/// Beginning of a path below the operator's path of a computer.
const OF_OPERATOR: &str = "operator";

/// Placeholder for the id of the snapshot that is made before.
const SNAPSHOT_PLACEHOLDER: &str = "{snapshot}";

/// Engine steps of the API's verbs.
const STEPS: [Verb; 16] = [
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
    Verb::MoveMachine,
];

/// Longest time until everything has settled.
const TIMEOUT: Duration = Duration::from_secs(20);

fn step_error() -> EngineError {
    EngineError::failed("do the step", "on purpose")
}

/// Computer and snapshot on which a verb operates.
struct Fixture {
    id: Option<String>,
    snapshot: String,
}

/// A controller on which each case is set up and cleared.
struct Scene {
    controller: Simulation,
    workspace: String,
}

impl Scene {
    async fn new() -> Self {
        let controller = Simulation::boot().await;
        controller.host.set_hosts(&["m1", "m2"]);
        let workspace = controller.workspace("w").await;
        Self { controller, workspace }
    }

    /// Creates a computer in the status that a verb requires, and its snapshot; nothing if the verb requires
    /// none.
    async fn prepare(&self, operation: &Operation) -> Fixture {
        let Some(from) = operation.from else { return Fixture { id: None, snapshot: String::new() } };
        let id = self.controller.computer(&self.workspace, "desk").await;
        let mut snapshot = String::new();
        if operation.needs_snapshot() {
            let kept =
                self.controller.post(&format!("/computers/{id}/snapshots"), json!({"memory": true})).await;
            assert_eq!(kept.status, 201, "{}", kept.body);
            snapshot = id_of(&kept.body);
        }
        let verb = match from {
            "stopped" => Some("stop"),
            "suspended" => Some("suspend"),
            _ => None,
        };
        if let Some(verb) = verb {
            let changed = self.controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
            assert_eq!(changed.status, 200, "{}", changed.body);
            self.controller.until_status(&id, from).await;
        }
        Fixture { id: Some(id), snapshot }
    }

    fn request(&self, operation: &Operation, before: &Fixture) -> RequestBuilder {
        operation.request(&self.controller, &self.workspace, before.id.as_deref(), &before.snapshot)
    }

    async fn listed(&self) -> Vec<Value> {
        self.controller.get("/computers").await.body["computers"].as_array().expect("a list").clone()
    }

    /// Waits until each computer has one of these statuses; returns all computers.
    async fn wait_until_settled(&self, at: &[&str], name: &str) -> Vec<Value> {
        let settled = wait::until(TIMEOUT, || async {
            let listed = self.listed().await;
            listed
                .iter()
                .all(|one| at.contains(&one["status"].as_str().unwrap_or_default()))
                .then_some(listed)
        });
        let settled = settled.await;
        match settled {
            Some(listed) => listed,
            None => panic!("{name}: not settled: {:?}", self.listed().await),
        }
    }

    /// Asserts that rows and machines agree, and that no row has pending work.
    async fn check_agreement(&self, listed: &[Value], name: &str) {
        let mut ids: Vec<String> = listed.iter().map(id_of).collect();
        ids.sort();
        assert_eq!(self.controller.machines(), ids, "{name}: machines and rows");
        let store = self.controller.store().await;
        for text in ids {
            let id: ComputerId = text.parse().expect("an id");
            // A resize that goes on after a restart shows in no status, and neither does the move of a stopped computer.
            let row = wait::until(TIMEOUT, || async {
                let row = store.computer(&ComputerRef::Id(id)).await.expect("the store").expect("a row");
                (row.wanted.is_none() && row.move_to.is_none()).then_some(row)
            });
            let row = row.await.unwrap_or_else(|| panic!("{name}: a resize or a move of {id} does not end"));
            assert!(row.saved_token.is_none() || row.status.name() == "suspended", "{name}: a token is left");
            self.check_snapshots(&store, id, name).await;
            let observed = self.controller.engine.observe(id).await.expect("an observation");
            let matches = match (row.status.name(), &observed) {
                ("running", Observation::Running { generation, .. }) => *generation == row.generation,
                ("stopped", Observation::Stopped) | ("suspended", Observation::Suspended { .. }) => true,
                // A failed stop leaves the process that it could not end.
                ("error", observed) => *observed != Observation::Absent,
                _ => false,
            };
            assert!(
                matches,
                "{name}: the row says {:?} of boot {}, the engine has {observed:?}",
                row.status, row.generation
            );
            let kept = wait::until(TIMEOUT, || async {
                let (rows, there) = (store.snapshots(id).await, self.controller.engine.snapshots(id).await);
                let (rows, there) = (rows.expect("rows"), there.expect("a list"));
                // A snapshot whose removal failed stays in this state until a client repeats the request.
                let kept = |row: &Snapshot| match row.state {
                    SnapshotState::Creating => false,
                    SnapshotState::Ready => there.contains(&row.id.0),
                    SnapshotState::Deleting => true,
                };
                let known = there.iter().all(|id| rows.iter().any(|row| row.id.0 == *id));
                (rows.iter().all(kept) && known).then_some(())
            });
            assert!(kept.await.is_some(), "{name}: an incomplete snapshot");
            if row.status.name() == "running" {
                let size = self.controller.size(&text);
                assert_eq!(size.cpu, row.hardware.cpu, "{name}: the machine's size");
                assert_eq!(
                    size.memory_bytes >> 30,
                    u64::from(row.hardware.ram_gb),
                    "{name}: the machine's size"
                );
            }
        }
    }

    /// Asserts that a computer's snapshots match its rows after interrupted work is undone.
    async fn check_snapshots(&self, store: &Store, id: ComputerId, name: &str) {
        let compare = || async {
            let rows = store.snapshots(id).await.expect("the store");
            let there = self.controller.engine.snapshots(id).await.expect("a list");
            let known = there.iter().all(|kept| rows.iter().any(|row| row.id.0 == *kept));
            let complete = |row: &Snapshot| match row.state {
                SnapshotState::Ready => there.contains(&row.id.0),
                // A failed removal can be requested again.
                SnapshotState::Deleting => true,
                SnapshotState::Creating => false,
            };
            (known && rows.iter().all(complete)).then_some(()).ok_or((rows, there))
        };
        let agreed = wait::until(TIMEOUT, || async { compare().await.ok() });
        if agreed.await.is_none() {
            panic!("{name}: snapshots and rows: {:?}", compare().await);
        }
    }

    /// Removes all computers of a case, and asserts that nothing is left and that their names are free.
    async fn clear(&self, name: &str) {
        for one in self.listed().await {
            let removed = self.controller.delete(&format!("/computers/{}", id_of(&one))).await;
            assert_eq!(removed.status, 200, "{name}: {}", removed.body);
        }
        assert_eq!(self.listed().await, Vec::<Value>::new(), "{name}");
        assert_eq!(self.controller.machines(), Vec::<String>::new(), "{name}");
    }

    /// Steps of a verb: the engine call and its number within the verb.
    async fn steps(&self, operation: &Operation) -> Vec<(Verb, u32)> {
        let prepare = self.prepare(operation).await;
        let before = STEPS.map(|step| self.controller.engine.calls(step));
        let done = fetch_json(self.request(operation, &prepare)).await;
        assert!(done.status < 300, "{}: {}", operation.name, done.body);
        let listed = self.wait_until_settled(&["running", "stopped", "suspended"], operation.name).await;
        let reached = listed.iter().all(|one| one["status"] == operation.goal)
            && listed.is_empty() == (operation.goal == "none");
        assert!(reached, "{}: {listed:?}", operation.name);
        let taken = STEPS.iter().zip(before);
        let steps: Vec<_> = taken
            .flat_map(|(step, before)| {
                (1..=self.controller.engine.calls(*step) - before).map(move |turn| (*step, turn))
            })
            .collect();
        assert!(!steps.is_empty(), "{} takes no step", operation.name);
        self.clear(operation.name).await;
        steps
    }

    fn plan(&self, (verb, turn): (Verb, u32), failure: Failure) {
        let call = self.controller.engine.calls(verb) + turn;
        self.controller.engine.plan(Fault { verb, call, failure });
    }
}

/// Asserts that a failure is reported as an error without internal details.
fn check_error(answer: &HttpAnswer, name: &str) {
    let complete = answer.status < 300 || answer.body["error"].is_string();
    assert!(
        complete && !answer.body.to_string().contains("on purpose"),
        "{name}: {} {}",
        answer.status,
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_every_step_of_every_verb_fails_once() {
    let (scene, mut cases) = (Scene::new().await, 0);
    for operation in simulated_operations() {
        for step in scene.steps(&operation).await {
            for failure in [Failure::Before(step_error()), Failure::After(step_error())] {
                // Every engine guarantees that a failed resize changes nothing.
                if step.0 == Verb::Resize && matches!(failure, Failure::After(_)) {
                    continue;
                }
                let name = format!("{} from {:?}, {step:?}, {failure:?}", operation.name, operation.from);
                let before = scene.prepare(&operation).await;
                scene.plan(step, failure);
                let answer = fetch_json(scene.request(&operation, &before)).await;
                check_error(&answer, &name);
                let listed =
                    scene.wait_until_settled(&["running", "stopped", "suspended", "error"], &name).await;
                scene.check_agreement(&listed, &name).await;
                let created = |one: &Value| Some(id_of(one)) != before.id;
                if ["create", "clone", "fork", "launch"].contains(&operation.name) {
                    // The copy is complete or absent.
                    assert_eq!(listed.iter().any(created), answer.status == 201, "{name}: {listed:?}");
                }
                scene.clear(&name).await;
                cases += 1;
            }
        }
    }
    println!("{cases} steps failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_the_controller_is_killed_before_and_after_every_step_of_every_verb() {
    let (mut scene, mut cases) = (Scene::new().await, 0);
    for operation in simulated_operations() {
        for step in scene.steps(&operation).await {
            for done in [false, true] {
                let name = format!(
                    "{} from {:?}, killed at {step:?}, step completed: {done}",
                    operation.name, operation.from
                );
                let before = scene.prepare(&operation).await;
                scene.plan(step, Failure::Never { done });
                let request = scene.request(&operation, &before);
                // The request continues even if its answer precedes that step.
                let send = async {
                    drop(request.send().await);
                    std::future::pending::<()>().await;
                };
                let reached_step =
                    wait::until(TIMEOUT, || async { (scene.controller.engine.stuck() == 1).then_some(()) });
                let reached_step = tokio::select! {
                    () = send => None,
                    reached_step = reached_step => reached_step,
                };
                assert!(reached_step.is_some(), "{name}: the verb must reach that step");
                scene.controller.kill().await;
                let listed = scene.wait_until_settled(&["running", "stopped", "suspended"], &name).await;
                scene.check_agreement(&listed, &name).await;
                // The state is that of before or after the request. A copy or a new computer is complete, or
                // was not acknowledged.
                for one in &listed {
                    let status = one["status"].as_str();
                    let old = Some(id_of(one)) == before.id;
                    let valid = status == Some(operation.goal) || old && status == operation.from;
                    assert!(valid, "{name}: {one}");
                }
                let lost = before.id.is_some() && listed.is_empty() && operation.goal != "none";
                assert!(!lost, "{name}: the computer is lost");
                scene.clear(&name).await;
                cases += 1;
            }
        }
    }
    println!("{cases} controllers were killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_every_verb_is_asked_twice() {
    let scene = Scene::new().await;
    for operation in simulated_operations() {
        let name = format!("{} from {:?} twice", operation.name, operation.from);
        let before = scene.prepare(&operation).await;
        let both = (scene.request(&operation, &before), scene.request(&operation, &before));
        let (first, second) = tokio::join!(fetch_json(both.0), fetch_json(both.1));
        // 202: the other request is in progress.
        let valid = |answer: &HttpAnswer| [200, 201, 202, 404, 409].contains(&answer.status);
        assert!(valid(&first) && valid(&second), "{name}: {} {}", first.body, second.body);
        assert!(first.status < 300 || second.status < 300, "{name}: {} {}", first.body, second.body);
        let listed = scene.wait_until_settled(&["running", "stopped", "suspended"], &name).await;
        scene.check_agreement(&listed, &name).await;
        let expected = match operation.name {
            "delete" => 0,
            "clone" | "fork" | "launch" => 2,
            _ => 1,
        };
        assert_eq!(listed.len(), expected, "{name}: {listed:?}");
        assert!(listed.iter().all(|one| one["status"] == operation.goal), "{name}: {listed:?}");
        scene.clear(&name).await;
    }
}
