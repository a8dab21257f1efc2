//! Hosts of computers over the simulated engine: placement, moves and drains (docs/hosts.md).

mod drains;
mod moves;

use hotdesk::base::wait;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::simulation::{Setup, Simulation};
use crate::suspension::agent::Agents;

/// Longest time of a drain, on a busy machine.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// A controller with computers on simulated hosts, whose agents count their calls in memory.
pub struct Scene {
    pub controller: Simulation,
    pub workspace: String,
}

impl Scene {
    pub async fn boot(hosts: &[&str]) -> Self {
        Self::boot_with(hosts, Setup::default()).await
    }

    pub async fn boot_with(hosts: &[&str], setup: Setup) -> Self {
        let controller = Simulation::boot_with_agent(Agents::new().factory(), setup).await;
        controller.host.set_hosts(hosts);
        let workspace = controller.workspace("w").await;
        Self { controller, workspace }
    }

    /// Creates a computer, and returns its id and host.
    pub async fn computer(&self, name: &str) -> (String, String) {
        let body = json!({"workspace_id": self.workspace, "name": name});
        let made = self.controller.create("/computers", body).await;
        let host = made["host"].as_str().expect("a host").to_owned();
        (id_of(&made), host)
    }

    /// Creates a computer on a host.
    pub async fn computer_on(&self, name: &str, host: &str) -> String {
        let (id, at) = self.computer(name).await;
        if at != host {
            let moved = self.move_to(&id, Some(host)).await;
            assert_eq!(moved.status, 200, "{}", moved.body);
        }
        id
    }

    pub async fn record(&self, id: &str) -> Value {
        self.controller.get(&format!("/computers/{id}")).await.body
    }

    /// The host of a machine, as the engine knows it.
    pub fn at(&self, id: &str) -> String {
        self.controller.host.host_of(id.parse().expect("an id")).unwrap_or_default()
    }

    pub async fn ask(&self, id: &str, verb: &str) -> HttpAnswer {
        self.controller.command(format!("/computers/{id}/{verb}")).await
    }

    pub async fn move_to(&self, id: &str, host: Option<&str>) -> HttpAnswer {
        let body = host.map_or(json!({}), |host| json!({ "host": host }));
        self.controller.post(&format!("/operator/computers/{id}/move"), body).await
    }

    /// Number of calls that the agent has counted in this boot, including this one.
    pub async fn count(&self, id: &str) -> u32 {
        let answer = self.controller.post(&format!("/computers/{id}/bash"), json!({"command": "x"})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["output"].as_str().and_then(|text| text.parse().ok()).expect("a number")
    }

    /// The record of a host.
    pub async fn host(&self, name: &str) -> Value {
        let listed = self.controller.get("/operator/hosts").await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        let hosts = listed.body["hosts"].as_array().expect("a list").clone();
        hosts.into_iter().find(|host| host["name"] == name).expect("the host")
    }

    pub async fn until_host(&self, name: &str, status: &str) {
        let reached = wait::until(DRAIN_TIMEOUT, || async {
            (self.host(name).await["status"] == status).then_some(())
        });
        assert!(reached.await.is_some(), "{}", self.host(name).await);
    }

    /// Holds the next call of an operation until the token is cancelled.
    pub fn hold_next(&self, verb: Verb) -> CancellationToken {
        let (call, held) = (self.controller.engine.calls(verb) + 1, CancellationToken::new());
        self.controller.engine.plan(Fault { verb, call, failure: Failure::Until(held.clone()) });
        held
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_computers_spread_over_the_hosts_and_copies_stay_with_their_source() {
    let scene = Scene::boot(&["m1", "m2", "m3"]).await;
    let mut hosts = Vec::new();
    for name in ["one", "two", "three"] {
        let (id, host) = scene.computer(name).await;
        assert_eq!(scene.at(&id), host);
        hosts.push(host);
    }
    hosts.sort();
    assert_eq!(hosts, ["m1", "m2", "m3"]);

    let (source, host) = scene.computer("source").await;
    for verb in ["clone", "fork"] {
        let copied = scene.controller.post(&format!("/computers/{source}/{verb}"), json!({})).await;
        assert_eq!(copied.status, 201, "{}", copied.body);
        let copy = id_of(&copied.body);
        assert_eq!((scene.at(&copy), &scene.record(&copy).await["host"]), (host.clone(), &json!(host)));
    }
    let record = scene.host(&host).await;
    // One of the first three, the source and its copies.
    assert_eq!((&record["computers"], &record["running"]), (&json!(4), &json!(4)), "{record}");
    assert_eq!((&record["status"], &record["engine"]), (&json!("online"), &json!("simulated")));
    assert_eq!((&record["cpus"], &record["message"]), (&json!(16), &json!("")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_begins_apart_from_others_of_its_workspace_on_request() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let create = async |workspace: &str, name: &str, cpu: u32, spread: bool| {
        let body = json!({"workspace_id": workspace, "name": name, "cpu": cpu, "spread": spread});
        let made = scene.controller.create("/computers", body).await;
        (id_of(&made), made["host"].as_str().expect("a host").to_owned())
    };
    let (own, other) = (scene.workspace.as_str(), scene.controller.workspace("other").await);
    // Of another workspace, so that `m1` has less room and none of the own computers.
    assert_eq!(create(other.as_str(), "large", 4, true).await.1, "m1");
    let (one, host) = create(own, "one", 1, true).await;
    assert_eq!(host, "m2");
    assert_eq!(create(own, "two", 1, false).await.1, "m2", "without the request the room decides");
    assert_eq!(scene.ask(&one, "stop").await.status, 200);
    scene.controller.until_status(&one, "stopped").await;
    let (three, host) = create(own, "three", 1, true).await;
    assert_eq!(host, "m1");
    assert_eq!(create(own, "four", 1, true).await.1, "m1", "one that is stopped counts");
    assert_eq!(create(own, "five", 1, true).await.1, "m2", "with as many on both, the room decides");

    for verb in ["clone", "fork"] {
        let path = format!("/computers/{three}/{verb}");
        let refused = scene.controller.post(&path, json!({"spread": true})).await;
        assert_eq!(refused.status, 400, "{verb}: {}", refused.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_answer_gets_no_computers() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    scene.controller.host.set_online("m1", false);
    for name in ["one", "two"] {
        assert_eq!(scene.computer(name).await.1, "m2");
    }
    let silent = scene.host("m1").await;
    assert_eq!((&silent["status"], &silent["computers"]), (&json!("offline"), &json!(0)));
    assert!(silent["message"].as_str().is_some_and(|text| !text.is_empty()), "{silent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_host_for_it_no_computer_is_made() {
    let scene = Scene::boot(&["m1"]).await;
    scene.controller.host.set_online("m1", false);
    let body = json!({"workspace_id": scene.workspace, "name": "one"});
    let refused = scene.controller.post("/computers", body).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("no_capacity")), "{}", refused.body);
    assert_eq!(scene.controller.machines(), Vec::<String>::new());
    assert_eq!(scene.controller.get("/computers").await.body["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_on_one_host_lists_it_and_moves_nothing() {
    let scene = Scene::boot(&[]).await;
    let workspace = &scene.workspace;
    let id = scene.controller.computer(workspace, "one").await;
    assert_eq!(scene.record(&id).await.get("host"), None);
    let listed = scene.controller.get("/operator/hosts").await.body;
    let own = &listed["hosts"][0];
    assert_eq!((listed["hosts"].as_array().map(Vec::len), &own["status"]), (Some(1), &json!("online")));
    assert!(own["cpus"].as_u64().is_some_and(|cpus| cpus > 0), "{own}");
    let refused = scene.move_to(&id, None).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    let drained = scene.controller.post("/operator/hosts/localhost/drain", json!({})).await;
    assert_eq!(drained.status, 404, "{}", drained.body);
    assert_eq!(scene.controller.status(&id).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_only_the_operator_sees_and_changes_hosts() {
    let scene = Scene::boot(&["m1", "m2"]).await;
    let id = scene.computer_on("one", "m1").await;
    let (_, stranger) = scene.controller.account("stranger@localhost").await;
    let operator = scene.controller.store().await.operator_account().await.expect("the operator");
    let scoped = scene.controller.key_of(operator, Some(&scene.workspace)).await;
    for (method, path) in [
        (reqwest::Method::GET, "/operator/hosts".to_owned()),
        (reqwest::Method::POST, "/operator/hosts/m1/drain".to_owned()),
        (reqwest::Method::POST, "/operator/hosts/m1/restore".to_owned()),
        (reqwest::Method::POST, format!("/operator/computers/{id}/move")),
    ] {
        for (key, code) in [(&stranger, "ACCESS_DENIED"), (&scoped, "workspace_scope_mismatch")] {
            let request = scene.controller.request_with(key, method.clone(), &path).json(&json!({}));
            let answer = fetch_json(request).await;
            assert_eq!((answer.status, &answer.body["code"]), (403, &json!(code)), "{path}: {}", answer.body);
        }
    }
    assert_eq!((scene.at(&id), &scene.host("m1").await["status"]), ("m1".to_owned(), &json!("online")));
    // The operator moves computers of every account.
    let (_, key) = scene.controller.account("other@localhost").await;
    let made = fetch_json(
        scene
            .controller
            .request_with(&key, reqwest::Method::POST, "/workspaces")
            .json(&json!({"name": "theirs"})),
    )
    .await;
    let body = json!({"workspace_id": id_of(&made.body), "name": "desk"});
    let request = scene.controller.request_with(&key, reqwest::Method::POST, "/computers").json(&body);
    let theirs = id_of(&fetch_json(request).await.body);
    let target = if scene.at(&theirs) == "m1" { "m2" } else { "m1" };
    let moved = scene.move_to(&theirs, Some(target)).await;
    assert_eq!((moved.status, &moved.body["host"]), (200, &json!(target)), "{}", moved.body);
}
