//! Builds of templates whose controller dies in any phase and before any step, and builds on a full disk (T18 and T20,
//! docs/security.md).

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use super::full::{DISK_MIB, fill};
use super::points::STRIDE;
use super::remains::Leftovers;
use super::rounds::{consistency_timeout, requested_rounds};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::syscall_trace::TracedProcess;
use crate::templates::builds::{self, build, build_path, definition, launch, publish, until_built};

/// Longest build of these tests: some boots of containers on a busy machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(120);
/// Phases of a build in the order in which its log has them.
const PHASES: [&str; 8] = ["publish", "compile", "boot", "install", "snapshot", "check", "record", "ready"];

/// Steps of which no two builds share a layer, with a service that is checked.
fn content(number: usize) -> String {
    format!(
        "build: {{run: ['echo {number} >/opt/number; head -c 5000000 /dev/urandom >/opt/data', 'sync']}}\n\
         apps: [{{name: web, services: [{{name: api, user: root, run: exec sleep 1000}}]}}]"
    )
}

/// A controller that dies during builds.
struct Scene {
    controller: RunningController,
    remains: Leftovers,
    workspace: String,
    builds: usize,
}

impl Scene {
    async fn new() -> Option<Self> {
        if let Some(skip) = skip_reason() {
            skip.report();
            return None;
        }
        let controller = RunningController::boot().await;
        let (remains, workspace) = (Leftovers::new(&controller), controller.workspace("w").await);
        Some(Self { controller, remains, workspace, builds: 0 })
    }

    /// Publishes another template, and begins its build.
    async fn begin(&mut self) -> String {
        self.builds += 1;
        let name = format!("lab@1.0.{}", self.builds);
        let document = definition(&name, &content(self.builds));
        let request = self.controller.request(Method::POST, "/templates?auto_build=true");
        // The controller may die before it answers.
        let _answer = request.header("content-type", "application/yaml").body(document).send().await;
        name
    }

    /// Starts the controller again, and asserts that nothing is left of the build and that it can be repeated.
    async fn check_after_death(&mut self, name: &str, case: &str) {
        self.controller.start_again().await;
        let status = self.controller.get(&build_path(name)).await;
        let expected = [json!("failed"), json!("ready"), json!("not_built")];
        // It may have died before the template was stored.
        assert!(status.status == 404 || expected.contains(&status.body["status"]), "{case}: {}", status.body);
        self.remains.check(&[], consistency_timeout()).await;
        self.check_layers(case).await;
        let document = definition(name, &content(self.builds));
        let published = publish(&self.controller, "", document).await;
        assert_eq!(published.status, 201, "{case}: {}", published.body);
        let again = self.controller.post(&build_path(name), json!({})).await;
        assert_eq!(again.status, 200, "{case}: {}", again.body);
        let built = until_built(&self.controller, name).await;
        assert_eq!(built["status"], "ready", "{case}: {built}");
        self.check_layers(case).await;
        let gone = self.controller.delete(&format!("/templates/default/{}", name.replace('@', "/"))).await;
        assert_eq!(gone.status, 200, "{case}: {}", gone.body);
    }

    /// Asserts that the host has exactly the layers of the store, and that they are complete.
    async fn check_layers(&self, case: &str) {
        let store = Store::open(&self.controller.store_file()).await.expect("a second connection opens");
        let mut stored = Vec::new();
        for (layer, retained) in store.template_layers().await.expect("rows") {
            assert!(retained.ready, "{case}: the layer {layer} is not complete");
            stored.push(layer.to_string());
        }
        store.close().await;
        stored.sort();
        assert_eq!(builds::layers(&self.controller), stored, "{case}: layers of the host and of the store");
    }
}

/// Reads the log of a build up to a phase. Returns false when the build ended before.
async fn until_phase(controller: &Caller, name: &str, phase: &str) -> bool {
    let request = controller.request(Method::GET, &format!("{}/events", build_path(name)));
    let mut response = request.send().await.expect("an answer");
    let mark = format!("\"phase\":\"{phase}\"");
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.expect("events") {
        text.push_str(&String::from_utf8_lossy(&chunk));
        if text.contains(&mark) {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_in_each_phase_of_a_build() {
    let Some(mut scene) = Scene::new().await else { return };
    for phase in PHASES {
        let name = scene.begin().await;
        assert!(until_phase(&scene.controller, &name, phase).await, "the build has no phase {phase}");
        scene.remains.observe();
        scene.controller.kill();
        scene.check_after_death(&name, &format!("killed in the phase {phase}")).await;
    }
    let last = build(&scene.controller, "last@1.0.0", &content(0)).await;
    assert_eq!(last["status"], "ready", "{last}");
    let launched = launch(&scene.controller, &scene.workspace, "one", "last@1.0.0").await;
    assert_eq!(scene.controller.bash(&id_of(&launched.body), "cat /opt/number").await, "0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_step_of_a_build() {
    let Some(mut scene) = Scene::new().await else { return };
    let stride = if requested_rounds().is_some() { 1 } else { STRIDE };
    let mut step = 1;
    loop {
        let traced = TracedProcess::until(scene.controller.pid(), step);
        let name = scene.begin().await;
        until_ended(&scene.controller, &name).await;
        scene.remains.observe();
        let path = traced.end().await;
        scene.controller.reap();
        let case = format!("killed before step {step}: {:?}", path.steps.last());
        scene.check_after_death(&name, &case).await;
        if !path.killed {
            println!("{} steps: {:?}", path.steps.len(), path.steps);
            return;
        }
        step += stride;
    }
}

/// Waits until a build has ended, or its controller.
async fn until_ended(controller: &Caller, name: &str) {
    let ended = wait::until(BUILD_TIMEOUT, || async {
        let Ok(answer) = controller.request(Method::GET, &build_path(name)).send().await else {
            return Some(());
        };
        let Ok(status) = answer.json::<Value>().await else { return Some(()) };
        (status["status"] != "building").then_some(())
    });
    ended.await.expect("the build ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_build_on_a_full_disk_fails_and_leaves_other_computers_alone() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_on_disk(DISK_MIB).await;
    let workspace = controller.workspace("w").await;
    let other = id_of(&controller.computer(&workspace, "other").await);
    let remains = Leftovers::new(&controller);
    // No space to boot a computer, to write in it, or to keep what it wrote.
    for (case, (is_full, megabytes, phase)) in
        [(true, 1, "boot"), (false, 1600, "install"), (false, 700, "snapshot")].into_iter().enumerate()
    {
        let filler = is_full.then(|| fill(&controller.data_dir()));
        let name = format!("lab@1.0.{case}");
        let step = format!("head -c {megabytes}M /dev/urandom >/opt/data && sync");
        let failed = build(&controller, &name, &format!("build: {{run: ['{step}']}}")).await;
        assert_eq!(failed["status"], "failed", "{phase}: {failed}");
        let error = failed["error"].as_str().expect("an error");
        assert!(error.contains("disk") || error.contains("space"), "{phase}: {error}");
        let log = builds::log(&controller, &name).await;
        let last = log.last().expect("an entry");
        assert_eq!((&last["phase"], &last["level"]), (&json!(phase), &json!("error")), "{log:?}");
        assert!(error.starts_with(&format!("{phase}: ")), "{error}");
        assert_eq!(controller.bash(&other, "echo hi").await, "hi\n", "{phase}");
        remains.check_running(std::slice::from_ref(&other)).await;
        assert_eq!(builds::layers(&controller), Vec::<String>::new(), "{phase}");
        if let Some(filler) = filler {
            std::fs::remove_file(filler).expect("the filler");
        }
        assert_eq!(
            controller.bash(&other, "head -c 1M /dev/urandom >/root/x; sync; stat -c %s /root/x").await,
            "1048576\n",
            "{phase}"
        );
    }
    let built = build(&controller, "lab@2.0.0", "build: {run: ['echo done >/opt/done']}").await;
    assert_eq!(built["status"], "ready", "{built}");
}
