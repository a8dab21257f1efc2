//! Rebuilds after a change of the last step or of a service: what boots, and what a failure leaves
//! (docs/internals.md#rebuilds-of-templates).

use std::sync::Arc;
use std::time::Duration;

use axum::routing::{any, get, post};
use axum::{Json, Router};
use hotdesk::base::ids::LayerId;
use hotdesk::base::wait;
use hotdesk::engine::simulated::{AgentBoot, Failure, Fault, Verb};
use hotdesk::engine::{Engine, EngineError};
use serde_json::{Value, json};

use super::builds::{build, build_path, controller, launch, log, until_built};
use super::services::{services, status};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Longest time until a call of the engine is reached, or until a controller has removed what the last one left.
const TIMEOUT: Duration = Duration::from_secs(20);
const WRITTEN: &str = "apps and hooks is written without a computer";

/// Two steps, and a service of a user that every image has.
fn content(last: &str, service: &str) -> String {
    format!(
        "build: {{run: ['echo first >/opt/first', 'echo {last} >/opt/last']}}\n\
         apps: [{{name: web, services: [{{name: api, user: root, run: 'echo {service}; exec sleep 1000'}}]}}]"
    )
}

/// A process that has ended well.
fn process() -> Value {
    json!({"success": true, "id": "1", "pid": 2, "name": null, "command": "true", "status": "exited",
        "exit_code": 0, "signal": null, "tree_running": false, "stdin": "closed",
        "started_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:00.000Z", "output_bytes": 0,
        "stdout_bytes": 0, "stderr_bytes": 0, "followers": 0})
}

/// An agent whose processes succeed and whose service runs. With `lacks` it has not what the programs need.
fn agent(lacks: bool) -> Router {
    let bash = json!({"success": true, "action": "bash", "command": "", "output": "", "exit_code": i32::from(lacks)});
    let running = json!({"services": [{"name": "api", "status": "running", "pid": 3, "exit_code": null, "signal": null,
        "since_seconds": 5, "log": "/var/log/x"}], "hooks": [], "health": []});
    let routes = Router::new()
        .route("/bash", post(async move || Json(bash)))
        .route("/processes", post(async || Json(process())))
        .route("/processes/{id}", any(async || Json(process())))
        .route("/processes/{id}/stdin", any(async || Json(json!({"written": 10, "eof": true}))))
        .route("/processes/{id}/output", any(async || ""))
        .route("/services", get(async move || Json(running)));
    default_agent().merge(routes)
}

async fn simulation(lacks: bool) -> Simulation {
    Simulation::boot_with_agent(Arc::new(move |_: &AgentBoot| agent(lacks)), Setup::default()).await
}

/// Machines, layers of machines and written layers of a build that succeeds.
async fn calls_of(controller: &Simulation, name: &str, more: &str) -> [u32; 3] {
    let calls =
        || [Verb::Create, Verb::KeepLayer, Verb::KeepPrograms].map(|verb| controller.engine.calls(verb));
    let before = calls();
    let built = build(controller, name, more).await;
    assert_eq!(built["status"], "ready", "{name}: {built}");
    assert_nothing_left(controller, name).await;
    let mut made = calls();
    made.iter_mut().zip(before).for_each(|(calls, before)| *calls -= before);
    made
}

/// Asserts that no machine is left, and that the host has exactly the layers of the store, which are complete.
async fn assert_nothing_left(controller: &Simulation, case: &str) {
    let store = controller.store().await;
    let seen = async || {
        let machines = controller.engine.list().await.expect("a list");
        let on_host = controller.engine.layers().await.expect("a list");
        let stored = store.template_layers().await.expect("rows");
        let is_ready = stored.iter().all(|(_, retained)| retained.ready);
        let mut ids: Vec<LayerId> = stored.into_iter().map(|(layer, _)| layer).collect();
        ids.sort();
        (machines, on_host == ids && is_ready)
    };
    let clean = wait::until(TIMEOUT, || async {
        let (machines, is_same) = seen().await;
        (machines.is_empty() && is_same).then_some(())
    });
    if clean.await.is_none() {
        panic!("{case}: {:?}", seen().await);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_last_step_boots_for_the_step_and_for_the_check() {
    let controller = simulation(false).await;
    assert_eq!(calls_of(&controller, "lab@1.0.0", &content("one", "a")).await, [3, 2, 1]);
    assert_eq!(calls_of(&controller, "lab@1.0.1", &content("two", "a")).await, [2, 1, 1]);
    // A change of the service boots for the check alone.
    assert_eq!(calls_of(&controller, "lab@1.0.2", &content("two", "b")).await, [1, 0, 1]);
    // Hooks need nothing, and are not checked.
    assert_eq!(calls_of(&controller, "lab@1.0.3", "hooks: {on_first_boot: 'true'}").await, [0, 0, 1]);
    let back = calls_of(&controller, "lab@1.0.4", &(content("one", "a") + "\nvars: {a: b}")).await;
    assert_eq!(back, [0, 0, 0], "all layers are found again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_installs_what_the_programs_lack() {
    let controller = simulation(true).await;
    assert_eq!(calls_of(&controller, "lab@1.0.0", &content("one", "a")).await, [4, 3, 0]);
    assert_eq!(calls_of(&controller, "lab@1.0.1", &content("two", "a")).await, [3, 2, 0]);
    // The machine of the check is asked, in vain, and its layer goes.
    assert_eq!(calls_of(&controller, "lab@1.0.2", &content("two", "b")).await, [3, 1, 1]);
    let lines = log(&controller, "lab@1.0.2").await;
    let lacks = "the computer lacks what the programs need: another one installs it";
    assert!(lines.iter().any(|entry| entry["line"] == lacks), "{lines:?}");
    // A user of the template is in no image: a machine looks for it at once.
    let user = content("two", "b").replace("user: root", "user: web");
    assert_eq!(calls_of(&controller, "lab@1.0.3", &user).await, [2, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_missing_leaves_the_list_to_a_machine() {
    let controller = simulation(false).await;
    let more = |service: &str| format!("secrets: [{{name: api_key}}]\n{}", content("one", service));
    assert_eq!(
        calls_of(&controller, "lab@1.0.0", &more("a")).await,
        [2, 2, 1],
        "the step's machine is asked"
    );
    // No check would ask whether the computer has what the programs need.
    assert_eq!(calls_of(&controller, "lab@1.0.1", &more("b")).await, [1, 1, 0]);
    let lines = log(&controller, "lab@1.0.1").await;
    let warnings = lines.iter().filter(|entry| entry["level"] == "warn" && entry["phase"] == "check").count();
    assert_eq!(warnings, 1, "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_rebuild_that_fails_or_dies_leaves_nothing_and_can_be_repeated() {
    let mut controller = simulation(false).await;
    let first = build(&controller, "lab@1.0.0", &content("0", "a")).await;
    assert_eq!(first["status"], "ready", "{first}");
    let calls = [
        (Verb::Create, 1),
        (Verb::Create, 2),
        (Verb::Start, 1),
        (Verb::Start, 2),
        (Verb::Stop, 1),
        (Verb::KeepLayer, 1),
        (Verb::KeepPrograms, 1),
    ];
    let mut number = 0;
    for (verb, at) in calls {
        for after in [false, true] {
            number += 1;
            let (name, case) =
                (format!("lab@1.1.{number}"), format!("{verb:?} {at}, after its work: {after}"));
            let error = EngineError::failed("test", "planned");
            let failure = if after { Failure::After(error) } else { Failure::Before(error) };
            controller.engine.plan(Fault { verb, call: controller.engine.calls(verb) + at, failure });
            let failed = build(&controller, &name, &content(&number.to_string(), "a")).await;
            assert_eq!(failed["status"], "failed", "{case}: {failed}");
            assert_nothing_left(&controller, &case).await;
            repeat(&controller, &name, &case).await;
        }
    }
    // What the end of a controller does not interrupt. A build that dies elsewhere is in `crash::builds`.
    for verb in [Verb::KeepLayer, Verb::KeepPrograms] {
        for done in [false, true] {
            number += 1;
            let (name, case) = (format!("lab@1.1.{number}"), format!("{verb:?}, killed, done: {done}"));
            let call = controller.engine.calls(verb) + 1;
            controller.engine.plan(Fault { verb, call, failure: Failure::Never { done } });
            let stuck = wait::until(TIMEOUT, || async { (controller.engine.stuck() > 0).then_some(()) });
            let changed = content(&number.to_string(), "a");
            tokio::select! {
                ended = build(&controller, &name, &changed) => panic!("{case}: {ended}"),
                stuck = stuck => stuck.unwrap_or_else(|| panic!("{case}: it is not reached")),
            }
            controller.kill().await;
            let status = controller.get(&build_path(&name)).await.body;
            assert_eq!(status["status"], "failed", "{case}: {status}");
            assert_nothing_left(&controller, &case).await;
            repeat(&controller, &name, &case).await;
        }
    }
}

/// Builds a template whose build failed again.
async fn repeat(controller: &Simulation, name: &str, case: &str) {
    let begun = controller.post(&build_path(name), json!({})).await;
    assert_eq!(begun.status, 200, "{case}: {}", begun.body);
    let built = until_built(controller, name).await;
    assert_eq!(built["status"], "ready", "{case}: {built}");
    assert_nothing_left(controller, case).await;
}

/// The numbers of boots for steps, of checks, and of written lists in the log of a build.
async fn seen_in_log(controller: &Caller, name: &str) -> [usize; 3] {
    let entries = log(controller, name).await;
    let count =
        |is_counted: &dyn Fn(&Value) -> bool| entries.iter().filter(|entry| is_counted(entry)).count();
    let line = |entry: &Value, text: &str| entry["line"].as_str().is_some_and(|line| line.contains(text));
    [
        count(&|entry| entry["phase"] == "boot"),
        count(&|entry| line(entry, "a computer boots, and its services start")),
        count(&|entry| line(entry, WRITTEN)),
    ]
}

/// Builds a template and two changes of it with real computers, and looks at the last one from inside.
async fn rebuild(controller: &RunningController) {
    let all = |last: &str, service: &str| {
        content(last, service).replace(
            "'echo first",
            "'chmod 751 /etc; mkdir -p /etc/hotdesk; chmod 711 /etc/hotdesk; echo first",
        )
    };
    for (version, last, service, expected) in
        [("1.0.0", "one", "a", [2, 1, 1]), ("1.0.1", "two", "a", [1, 1, 1]), ("1.0.2", "two", "b", [0, 1, 1])]
    {
        let name = format!("lab@{version}");
        let built = build(controller, &name, &all(last, service)).await;
        assert_eq!(built["status"], "ready", "{built}");
        assert_eq!(seen_in_log(controller, &name).await, expected, "{name}");
    }
    assert_eq!(controller.machines(), Vec::<String>::new());
    let workspace = controller.workspace("w").await;
    let launched = launch(controller, &workspace, "one", "lab@1.0.2").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    services(controller, &id, |list| status(list, "api") == "running").await;
    let look = "cat /opt/first /opt/last; cd /etc/hotdesk; stat -c '%a %u:%g' / /etc . programs.json; \
        grep -c 'echo b; exec sleep 1000' programs.json; test -s /etc/passwd && echo whole";
    let expected = "first\ntwo\n755 0:0\n751 0:0\n711 0:0\n644 0:0\n1\nwhole\n";
    assert_eq!(controller.bash(&id, look).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_list_is_that_of_a_machine() {
    let Some(controller) = controller().await else { return };
    rebuild(&controller).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_list_is_that_of_a_machine_over_gvisor() {
    let Some(configuration) = gvisor() else { return };
    rebuild(&RunningController::boot_with(&configuration).await).await;
}
