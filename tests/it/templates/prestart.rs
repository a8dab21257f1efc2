//! Services and programs of the desktop that start before a launch (docs/templates.md#prestart): their boot
//! snapshot, on simulated machines, and computers over gVisor that continue from it. T28 (docs/security.md).

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Json, Router};
use hotdesk::base::wait;
use hotdesk::engine::Engine;
use hotdesk::engine::simulated::{AgentBoot, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use super::builds::{build, launch, log};
use super::services::{TIMEOUT, service, services, status};
use crate::boot_snapshots;
use crate::harness::agent::fetch_json;
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// An application whose program of the desktop starts before launches. A build does not check it.
const EARLY: &str = "apps: [{name: web, prestart: true, autostart: [{run: serve}]}]\n";

/// How agents answer the start of services before a launch.
#[derive(Clone, Copy)]
enum Start {
    Works,
    Fails,
    NeverEnds,
}

/// Requests of the service to prepare a template, as their queries.
#[derive(Clone, Default)]
struct PrepareLog(Arc<Mutex<Vec<String>>>);

impl PrepareLog {
    fn queries(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }

    /// Routes of an agent whose programs end at once with success.
    fn agent(&self, start: Start) -> Router {
        let process = async || -> Json<Value> {
            Json(
                json!({"success": true, "id": "1", "pid": 2, "name": null, "command": "true", "status": "exited",
                "exit_code": 0, "signal": null, "tree_running": false, "stdin": "closed",
                "started_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:00.000Z", "output_bytes": 0,
                "stdout_bytes": 0, "stderr_bytes": 0, "followers": 0}),
            )
        };
        let queries = Arc::clone(&self.0);
        let prepare = async move |RawQuery(query): RawQuery| -> Response {
            let query = query.unwrap_or_default();
            queries.lock().expect("not poisoned").push(query.clone());
            match start {
                Start::Fails if query == "prestart=true" => {
                    let error = json!({"error": "The service web is not up: it ended", "request_id": "1"});
                    (StatusCode::CONFLICT, Json(error)).into_response()
                }
                Start::NeverEnds if query == "prestart=true" => std::future::pending().await,
                Start::Works | Start::Fails | Start::NeverEnds => {
                    Json(json!({"success": true})).into_response()
                }
            }
        };
        let routes = Router::new()
            .route("/processes", post(process))
            .route("/processes/{id}", any(process))
            .route("/processes/{id}/stdin", any(async || Json(json!({"written": 10, "eof": true}))))
            .route("/processes/{id}/output", any(async || ""))
            .route("/template/prepare", post(prepare));
        default_agent().merge(routes)
    }
}

async fn simulation(start: Start) -> (Simulation, PrepareLog) {
    let prepared = PrepareLog::default();
    let agents = prepared.clone();
    let agent = Arc::new(move |_: &AgentBoot| agents.agent(start));
    let setup = Setup { boot_snapshots: 4, ..Setup::default() };
    (Simulation::boot_with_agent(agent, setup).await, prepared)
}

/// The machines of a simulated host, which has a folder of layers among them.
fn machines(controller: &Simulation) -> Vec<String> {
    controller.machines().into_iter().filter(|name| name != "layers").collect()
}

/// Launches a template with more fields of the request.
async fn launch_with(controller: &Caller, workspace: &str, name: &str, more: Value) -> Value {
    let mut body = json!({"workspace_id": workspace, "name": name, "template_ref": "default/lab@1.0.0"});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let launched = controller.post("/computers", body).await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    launched.body
}

/// The warnings of a build about services that start at each launch.
async fn warnings(controller: &Caller, name: &str) -> Vec<String> {
    let entries = log(controller, name).await;
    let lines =
        entries.iter().filter(|entry| entry["level"] == "warn").map(|entry| entry["line"].to_string());
    lines.filter(|line| line.contains("prestart")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_snapshot_has_running_services_only_for_launches_that_change_nothing_for_them() {
    let (controller, prepared) = simulation(Start::Works).await;
    let workspace = controller.workspace("w").await;
    let built = build(&controller, "lab@1.0.0", EARLY).await;
    assert_eq!(built["status"], "ready", "{built}");
    assert_eq!(warnings(&controller, "lab@1.0.0").await, Vec::<String>::new());
    controller.until_boot_snapshots(1).await;
    assert_eq!(prepared.queries(), ["", "prestart=true"]);
    launch_with(&controller, &workspace, "one", json!({})).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 1);

    // Services would run before the policy of the request: they start at this launch, and it has a snapshot
    // of its own.
    let policy = json!({"egress_policy": {"mode": "allow", "rules": ["192.0.2.1"]}});
    launch_with(&controller, &workspace, "two", policy.clone()).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 1);
    controller.until_boot_snapshots(2).await;
    launch_with(&controller, &workspace, "three", policy).await;
    assert_eq!(controller.engine.calls(Verb::Launch), 2);
    assert_eq!(prepared.queries(), ["", "prestart=true", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_a_template_with_secrets_start_at_each_launch_and_its_author_reads_why() {
    let (mut controller, prepared) = simulation(Start::Works).await;
    let built = build(&controller, "lab@1.0.0", &format!("secrets: [{{name: api_key}}]\n{EARLY}")).await;
    assert_eq!(built["status"], "ready", "{built}");
    let warnings = warnings(&controller, "lab@1.0.0").await;
    assert!(matches!(&warnings[..], [one] if one.contains("the template has secrets")), "{warnings:?}");
    controller.until_boot_snapshots(1).await;
    assert_eq!(prepared.queries(), [""]);

    // A day after its template the snapshot goes, and then the layer below it.
    assert_eq!(controller.delete("/templates/default/lab/1.0.0").await.status, 200);
    controller.sql("UPDATE template_layers SET used_at = 1").await;
    controller.restart().await;
    let controller = &controller;
    let gone = wait::until(TIMEOUT, || async {
        let layers = controller.engine.layers().await.expect("layers");
        (layers.is_empty() && machines(controller).is_empty()).then_some(())
    });
    assert!(gone.await.is_some(), "{:?}", machines(controller));
    assert!(controller.store().await.boot_snapshots().await.expect("the store").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_do_not_start_before_a_launch_start_at_each_one_and_are_not_tried_again() {
    let (controller, prepared) = simulation(Start::Fails).await;
    let workspace = controller.workspace("w").await;
    let built = build(&controller, "lab@1.0.0", EARLY).await;
    assert_eq!(built["status"], "ready", "{built}");
    let seen = wait::until(TIMEOUT, || async { (prepared.queries().len() == 3).then_some(()) });
    assert!(seen.await.is_some(), "{:?}", prepared.queries());
    controller.until_boot_snapshots(1).await;
    for name in ["one", "two"] {
        launch_with(&controller, &workspace, name, json!({})).await;
    }
    assert_eq!(controller.engine.calls(Verb::Launch), 2);
    assert_eq!(prepared.queries(), ["", "prestart=true", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_while_services_start_leaves_nothing() {
    let (mut controller, prepared) = simulation(Start::NeverEnds).await;
    let workspace = controller.workspace("w").await;
    let built = build(&controller, "lab@1.0.0", EARLY).await;
    assert_eq!(built["status"], "ready", "{built}");
    let starts = async || {
        let found = || async { prepared.queries().contains(&"prestart=true".to_owned()).then_some(()) };
        wait::until(TIMEOUT, found).await.expect("services start");
    };
    starts().await;
    controller.kill().await;
    let clean = wait::until(TIMEOUT, || async { machines(&controller).is_empty().then_some(()) });
    assert!(clean.await.is_some(), "{:?}", machines(&controller));
    assert!(controller.store().await.boot_snapshots().await.expect("the store").is_empty());
    // The next controller tries again, and launches do not wait for it.
    prepared.0.lock().expect("not poisoned").clear();
    launch_with(&controller, &workspace, "one", json!({})).await;
    starts().await;
}

/// One application whose programs start before launches, and one whose service starts at each. Both count
/// their starts.
const CONTENT: &str = "apps:\n  - name: web\n    prestart: true\n    \
    health: {type: http, url: 'http://127.0.0.1:3000/', every: 1h}\n    \
    autostart: [{run: 'echo opened >>/root/opened'}]\n    services:\n      \
    - {name: site, user: root, cwd: /srv, run: 'date +%s >>/root/starts; exec python3 -m http.server 3000'}\n      \
    - {name: ticks, run: 'n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.2; done'}\n  \
    - name: late\n    services:\n      \
    - {name: later, user: root, run: 'date +%s >>/root/later; exec sleep infinity'}\n";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The times in a file of a computer, once it has `count` of them: a service counts as running from the start
/// of its shell, which writes a moment later.
async fn times(controller: &RunningController, id: &str, file: &str, count: usize) -> Vec<u64> {
    let read = async || controller.bash(id, &format!("cat {file} 2>/dev/null || true")).await;
    let written = wait::until(TIMEOUT, || async { (read().await.lines().count() >= count).then_some(()) });
    assert!(written.await.is_some(), "{file}: {}", read().await);
    let text = read().await;
    let times: Vec<u64> =
        text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{file}: {text}"))).collect();
    assert_eq!(times.len(), count, "{file}: {text}");
    times
}

fn all_run(list: &Value) -> bool {
    ["site", "ticks", "later"].iter().all(|name| status(list, name) == "running")
}

/// The number of the last line that the service `ticks` wrote.
async fn last_tick(controller: &RunningController, id: &str) -> u64 {
    let log = controller.get(&format!("/computers/{id}/services/ticks/log")).await.body;
    let text = log["text"].as_str().expect("a text");
    assert!(text.contains("tick 1\n"), "{text}");
    let last = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).next_back();
    last.unwrap_or_else(|| panic!("{text}"))
}

/// Launches the template, and checks that its early services have run since before, and the other one since
/// the launch.
async fn launch_of_running_services(controller: &RunningController, workspace: &str, name: &str) -> String {
    let before = now();
    let launched = launch(controller, workspace, name, "lab@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    let list =
        services(controller, &id, |list| all_run(list) && list["health"][0]["status"] == "healthy").await;
    assert_eq!(service(&list, "autostart.0")["exit_code"], 0, "{list}");
    let starts = times(controller, &id, "/root/starts", 1).await;
    assert!(matches!(starts[..], [at] if at < before), "{starts:?}, launched at {before}");
    assert_eq!(controller.bash(&id, "cat /root/opened").await, "opened\n");
    let later = times(controller, &id, "/root/later", 1).await;
    assert!(matches!(later[..], [at] if at >= before), "{later:?}, launched at {before}");
    let answer = "curl -fsS http://127.0.0.1:3000/ | grep -c 'Directory listing'";
    assert_ne!(controller.bash(&id, answer).await, "0\n");
    id
}

/// Asserts that logs are written, and that the supervisor still sees that a service ends.
async fn check_supervision(controller: &RunningController, id: &str) {
    let tick = last_tick(controller, id).await;
    let written = wait::until(TIMEOUT, || async { (last_tick(controller, id).await > tick).then_some(()) });
    assert!(written.await.is_some(), "the log ends with tick {tick}");
    let list = services(controller, id, all_run).await;
    let pid = service(&list, "site")["pid"].clone();
    controller.bash(id, &format!("kill -9 {pid}")).await;
    services(controller, id, |list| status(list, "site") == "running" && service(list, "site")["pid"] != pid)
        .await;
    times(controller, id, "/root/starts", 2).await;
    // A boot starts everything, and a program of the desktop again.
    for verb in ["stop", "start"] {
        let done = controller.act(id, verb, json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
    }
    services(controller, id, |list| all_run(list) && service(list, "autostart.0")["exit_code"] == 0).await;
    times(controller, id, "/root/starts", 3).await;
    assert_eq!(controller.bash(id, "cat /root/opened").await, "opened\nopened\n");
}

/// Asserts that a template with a secret starts all services at its launch.
async fn check_secret(controller: &RunningController, workspace: &str) {
    let stored = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({"value": "a value"}));
    assert!(fetch_json(stored).await.status < 300);
    let built = build(controller, "keys@1.0.0", &format!("secrets: [{{name: api_key}}]\n{CONTENT}")).await;
    assert_eq!(built["status"], "ready", "{built}");
    let before = now();
    let launched = launch(controller, workspace, "keys", "keys@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    services(controller, &id, all_run).await;
    let starts = times(controller, &id, "/root/starts", 1).await;
    assert!(matches!(starts[..], [at] if at >= before), "{starts:?}, launched at {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t28_launches_continue_services_that_have_started_and_are_computers_of_their_own() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&format!("{configuration}{}", boot_snapshots::ON)).await;
    let workspace = controller.workspace("w").await;
    let built = build(&controller, "lab@1.0.0", CONTENT).await;
    assert_eq!(built["status"], "ready", "{built}");
    boot_snapshots::until_there_is_one(&controller).await;
    let one = launch_of_running_services(&controller, &workspace, "one").await;
    let two = launch_of_running_services(&controller, &workspace, "two").await;
    boot_snapshots::expect_begun(&controller, 2).await;
    for command in boot_snapshots::IDENTITY {
        let [own, other] = [controller.bash(&one, command).await, controller.bash(&two, command).await];
        assert!(!own.trim().is_empty() && own != other, "{command}: {own} and {other}");
    }
    check_supervision(&controller, &one).await;
    check_secret(&controller, &workspace).await;
}
