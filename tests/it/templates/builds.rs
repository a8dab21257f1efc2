//! Templates that are published, built and launched with real computers (docs/templates.md).

use std::fs;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::person::Shell;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// Longest build of these tests: some boots of containers.
const BUILD_TIMEOUT: Duration = Duration::from_secs(120);

/// A definition with these lines after its name.
pub fn definition(name: &str, more: &str) -> String {
    format!("api_version: hotdesk/v1\nname: {name}\n{more}\n")
}

pub async fn publish(controller: &Caller, query: &str, document: String) -> HttpAnswer {
    let request = controller.request(Method::POST, &format!("/templates{query}"));
    fetch_json(request.header("content-type", "application/yaml").body(document)).await
}

/// Publishes a definition, begins its build, and waits until the build ends. Returns its status.
pub async fn build(controller: &Caller, name: &str, more: &str) -> Value {
    build_within(BUILD_TIMEOUT, controller, name, more).await
}

/// [`build`] with another timeout.
pub async fn build_within(timeout: Duration, controller: &Caller, name: &str, more: &str) -> Value {
    let published = publish(controller, "?auto_build=true", definition(name, more)).await;
    assert_eq!(published.status, 201, "{}", published.body);
    // A build that is refused may have failed already, and one without steps may be ready.
    assert!(
        ["building", "failed", "ready"].contains(&published.body["auto_build"].as_str().unwrap_or_default()),
        "{}",
        published.body
    );
    until_built_within(timeout, controller, name).await
}

pub fn build_path(name: &str) -> String {
    format!("/templates/default/{}/build", name.replace('@', "/"))
}

pub async fn until_built(controller: &Caller, name: &str) -> Value {
    until_built_within(BUILD_TIMEOUT, controller, name).await
}

async fn until_built_within(timeout: Duration, controller: &Caller, name: &str) -> Value {
    let path = build_path(name);
    let ended = wait::until(timeout, || async {
        let status = controller.get(&path).await.body;
        (status["status"] != "building").then_some(status)
    });
    ended.await.expect("the build ends")
}

/// The log of a build, which has ended: its entries.
pub async fn log(controller: &Caller, name: &str) -> Vec<Value> {
    let request = controller.request(Method::GET, &format!("{}/events", build_path(name)));
    let response = request.send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.expect("events");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|line| serde_json::from_str(line).expect("an entry")).collect()
}

/// Lines of a log that a field of the definition wrote.
pub fn lines_of(log: &[Value], source: &str) -> Vec<String> {
    let written = log.iter().filter(|entry| entry["source"] == source);
    written.map(|entry| entry["line"].as_str().expect("a line").to_owned()).collect()
}

pub async fn launch(controller: &Caller, workspace: &str, name: &str, template: &str) -> HttpAnswer {
    let template = format!("default/{template}");
    let body = json!({"workspace_id": workspace, "name": name, "template_ref": template});
    controller.post("/computers", body).await
}

/// Names in the folder of layers, sorted.
pub fn layers(controller: &RunningController) -> Vec<String> {
    let folder = controller.data_dir().join("layers");
    let entries = fs::read_dir(&folder).map(|entries| {
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    });
    let mut names: Vec<String> = entries.unwrap_or_default();
    names.sort();
    names
}

/// A controller whose computers are containers; `None` where they cannot run.
pub async fn controller() -> Option<RunningController> {
    if let Some(skip) = skip_reason() {
        skip.report();
        return None;
    }
    Some(RunningController::boot().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_built_once_and_each_launch_has_its_files_and_an_identity_of_its_own() {
    let Some(controller) = controller().await else { return };
    let content = "hardware: {cpu: 2, disk_gb: 9, resolution: 1024x768, auto_stop_minutes: 30}\n\
        vars: {word: hello}\nenv: {LAB_NAME: \"the ${var.word} lab\"}\n\
        files: [{to: /opt/lab/config, inline: \"${var.word}\\n$HOME\\n\", mode: '0640', group: adm}]\n\
        apps: [{name: lab, install: 'echo installed >/opt/lab/app'}]\n\
        build:\n  run:\n    - test \"$LAB_NAME\" = 'the hello lab'; rm /etc/adduser.conf; cat /opt/lab/config\n    \
        - echo changed >>/opt/lab/config; echo to stderr >&2";
    let status = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(status["status"], "ready", "{status}");
    assert!(status["build_time_ms"].as_u64() > Some(0), "{status}");
    let log = log(&controller, "lab@1.0.0").await;
    assert_eq!(lines_of(&log, "build.run[0]"), ["hello", "$HOME"]);
    assert_eq!(lines_of(&log, "build.run[1]"), ["to stderr"]);
    let mut phases: Vec<&str> = log.iter().filter_map(|entry| entry["phase"].as_str()).collect();
    phases.dedup();
    let of_layer = ["boot", "install", "snapshot"];
    let expected = [&["publish", "compile"][..], &of_layer.repeat(5), &["record", "ready"]].concat();
    assert_eq!(phases, expected, "{log:?}");
    let last = log.last().expect("an entry");
    assert_eq!((&last["phase"], &last["level"]), (&json!("ready"), &json!("success")), "{last}");
    assert_eq!(controller.machines(), Vec::<String>::new(), "no machine of a build stays");
    assert_eq!(layers(&controller).len(), 5);

    let workspace = controller.workspace("w").await;
    let mut identities = Vec::new();
    for name in ["one", "two"] {
        let launched = launch(&controller, &workspace, name, "lab@1.0.0").await;
        assert_eq!(launched.status, 201, "{}", launched.body);
        let record = &launched.body;
        assert_eq!(
            (&record["cpu"], &record["disk_size_gb"], &record["resolution"], &record["auto_stop_minutes"]),
            (&json!(2), &json!(9), &json!("1024x768x24"), &json!(30)),
            "{record}"
        );
        assert_eq!(record["template_ref"], "default/lab@1.0.0");
        let top = record["template_build_id"].as_str().expect("a build");
        assert!(layers(&controller).iter().any(|layer| layer == top), "{top}");
        let id = id_of(record);
        let seen = controller
            .bash(
                &id,
                "cat /opt/lab/config /opt/lab/app; stat -c '%a %G' /opt/lab/config; echo \"$LAB_NAME\"",
            )
            .await;
        assert_eq!(seen, "hello\n$HOME\nchanged\ninstalled\n640 adm\nthe hello lab\n");
        controller.bash(&id, &format!("echo {name} >/opt/lab/app")).await;
        identities.push(controller.bash(&id, "cat /etc/machine-id").await);
        let disk = fs::metadata(controller.machine(&id).join("disk.img")).expect("a disk");
        let bytes = std::os::unix::fs::MetadataExt::blocks(&disk) * 512;
        assert!(bytes < 10 << 20, "the layers are not copied: {bytes} bytes");
    }
    assert_ne!(identities[0], identities[1]);

    // The same document at another reference is not built again.
    let same = publish(&controller, "?auto_build=true", definition("lab@1.0.0", content)).await;
    assert_eq!((same.status, &same.body["auto_build"]), (201, &json!("ready")), "{}", same.body);
    let again = controller.post(&build_path("lab@1.0.0"), json!({})).await;
    assert_eq!((&again.body["status"], &again.body["reused"]), (&json!("ready"), &json!(true)));

    // A computer outlives its template, and so do its layers.
    let gone = controller.delete("/templates/default/lab/1.0.0").await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    let one = controller.get("/computers").await.body["computers"][0].clone();
    let id = id_of(&one);
    for verb in ["stop", "start"] {
        controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        controller.until_status(&id, if verb == "stop" { "stopped" } else { "running" }).await;
    }
    assert_eq!(controller.bash(&id, "cat /opt/lab/app; head -n1 /opt/lab/config").await, "one\nhello\n");
    let cloned = controller.post(&format!("/computers/{id}/clone"), json!({})).await;
    assert_eq!(controller.bash(&id_of(&cloned.body), "cat /opt/lab/app").await, "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_last_step_repeats_that_step_alone() {
    let Some(controller) = controller().await else { return };
    let steps = |last: &str| format!("build: {{run: ['date +%N >/opt/stamp', '{last}']}}");
    assert_eq!(build(&controller, "lab@1.0.0", &steps("echo first")).await["status"], "ready");
    assert_eq!(build(&controller, "lab@1.0.1", &steps("echo second")).await["status"], "ready");
    let log = log(&controller, "lab@1.0.1").await;
    let unchanged = log.iter().filter(|entry| entry["line"] == "build.run[0]: unchanged").count();
    assert_eq!((unchanged, lines_of(&log, "build.run[0]").len()), (1, 0), "{log:?}");
    assert_eq!(lines_of(&log, "build.run[1]"), ["second"]);
    assert_eq!(layers(&controller).len(), 3);
    let workspace = controller.workspace("w").await;
    let mut stamps = Vec::new();
    for (name, template) in [("one", "lab@1.0.0"), ("two", "lab@1.0.1")] {
        let launched = launch(&controller, &workspace, name, template).await;
        stamps.push(controller.bash(&id_of(&launched.body), "cat /opt/stamp").await);
    }
    assert_eq!(stamps[0], stamps[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_build_names_its_step_and_leaves_nothing() {
    let Some(controller) = controller().await else { return };
    let steps = "build: {run: ['true', 'echo some output; exit 7', 'echo never']}";
    let status = build(&controller, "bad@1.0.0", steps).await;
    let error = "install: build.run[1] ended with exit code 7:\nsome output\nlast command: exit 7";
    assert_eq!((&status["status"], &status["error"]), (&json!("failed"), &json!(error)));
    assert_eq!((controller.machines().len(), layers(&controller).len()), (0, 1), "the first step is kept");
    let workspace = controller.workspace("w").await;
    let refused = launch(&controller, &workspace, "one", "bad@1.0.0").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("TEMPLATE_NOT_READY")),
        "{}",
        refused.body
    );

    let unknown = launch(&controller, &workspace, "one", "none@1.0.0").await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_cancelled_or_killed_leaves_nothing_and_can_be_repeated() {
    let Some(mut controller) = controller().await else { return };
    let name = "slow@1.0.0";
    // The second step waits for the test: the build stands in it, and later builds pass it.
    let steps = "build: {run: ['echo one >/opt/one', 'echo waiting; test ! -e /opt/wait || sleep 600']}\n\
                 files: [{to: /opt/wait, inline: x}]";
    let begun = publish(&controller, "?auto_build=true", definition(name, steps)).await;
    assert_eq!(begun.status, 201, "{}", begun.body);
    until_waiting(&controller, name).await;
    let twice = controller.post(&build_path(name), json!({})).await;
    assert_eq!((twice.status, &twice.body["status"]), (200, &json!("building")));
    let cancelled = controller.delete(&build_path(name)).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    let status = controller.get(&build_path(name)).await.body;
    assert_eq!((&status["status"], &status["error"]), (&json!("failed"), &json!("the build was cancelled")));
    assert_eq!((controller.machines().len(), layers(&controller).len()), (0, 2));
    assert_eq!(controller.delete(&build_path(name)).await.status, 409, "none runs");

    controller.post(&build_path(name), json!({})).await;
    until_waiting(&controller, name).await;
    controller.kill();
    controller.start_again().await;
    let status = controller.get(&build_path(name)).await.body;
    assert_eq!(status["status"], "failed", "{status}");
    assert!(status["error"].as_str().is_some_and(|error| error.contains("build it again")), "{status}");
    assert_eq!((controller.machines().len(), layers(&controller).len()), (0, 2));
    // Another version without the pause builds; its first layers are those of the first attempt.
    let steps = "build: {run: ['echo one >/opt/one', 'cat /opt/one']}\nfiles: [{to: /opt/wait, inline: x}]";
    assert_eq!(build(&controller, "slow@1.0.1", steps).await["status"], "ready");
    assert_eq!(layers(&controller).len(), 3);
}

/// Waits until a build stands in its second script.
async fn until_waiting(controller: &RunningController, name: &str) {
    let request = controller.request(Method::GET, &format!("{}/events", build_path(name)));
    let mut response = request.send().await.expect("an answer");
    let mut text = String::new();
    while !text.contains("\"line\":\"waiting\"") {
        let chunk = response.chunk().await.expect("events").unwrap_or_else(|| panic!("no wait in {text}"));
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_is_immutable_once_a_computer_has_it() {
    let Some(controller) = controller().await else { return };
    let (one, two) = ("build: {run: ['echo one >/opt/x']}", "build: {run: ['echo two >/opt/x']}");
    assert_eq!(build(&controller, "lab@1.0.0", one).await["status"], "ready");
    let other = publish(&controller, "", definition("lab@1.0.0", two)).await;
    assert_eq!((other.status, &other.body["code"]), (409, &json!("template_exists")), "{}", other.body);
    let forced = publish(&controller, "?force=true", definition("lab@1.0.0", two)).await;
    assert_eq!(forced.status, 201, "{}", forced.body);
    let list = controller.get("/templates").await.body;
    let only = &list["templates"][0];
    assert_eq!((&only["ref"], &only["status"]), (&json!("default/lab@1.0.0"), &json!("not_built")), "{list}");
    assert_eq!(only["template"]["build"]["run"][0], "echo two >/opt/x");
    controller.post(&build_path("lab@1.0.0"), json!({})).await;
    assert_eq!(until_built(&controller, "lab@1.0.0").await["status"], "ready");
    let workspace = controller.workspace("w").await;
    let launched = launch(&controller, &workspace, "one", "lab@1.0.0").await;
    assert_eq!(controller.bash(&id_of(&launched.body), "cat /opt/x").await, "two\n");
    let refused = publish(&controller, "?force=true", definition("lab@1.0.0", one)).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("template_in_use")), "{}", refused.body);

    let versions = controller.get("/templates/default/lab").await;
    assert_eq!(versions.body["templates"][0]["published"], true, "{}", versions.body);
    for path in ["/templates/default/none", "/templates/default/lab/9.9.9", "/templates/other/lab/1.0.0"] {
        assert_eq!(controller.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_publishes_builds_and_launches() {
    let Some(controller) = controller().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let path = shell.file("lab.yaml");
    let content = "build: {run: ['echo built >/opt/x']}\n\
        apps: [{name: app, services: [{name: web, user: root, run: 'echo hello; exec sleep 600'}]}]";
    fs::write(&path, definition("lab@1.0.0", content)).expect("a file");
    let file = path.to_str().expect("a path");
    let published = shell.run(&["templates", "publish", file, "--build"]).await.expect_success();
    for part in ["Published default/lab@1.0.0", "build.run[0] begins", "default/lab@1.0.0 is ready after"] {
        assert!(published.contains(part), "{part} is not in {published}");
    }
    assert!(shell.run(&["templates", "ls"]).await.expect_success().contains("default/lab@1.0.0  ready"));
    shell.run(&["workspaces", "create", "w"]).await.expect_success();
    let create = ["computers", "create", "c1", "--workspace", "w", "--template", "default/lab@1.0.0"];
    shell.run(&create).await.expect_success();
    assert_eq!(shell.run(&["bash", "c1", "cat /opt/x"]).await.expect_success(), "built\n");
    shell.run(&["templates", "logs", "lab@1.0.0"]).await.expect_success();
    for (action, expected) in
        [("stop", "web is stopped"), ("start", "web is running."), ("restart", "web is running.")]
    {
        let done = shell.run(&["services", action, "c1", "web"]).await.expect_success();
        assert!(done.starts_with(expected), "{action}: {done}");
    }
    let listed = shell.run(&["services", "ls", "c1"]).await.expect_success();
    assert!(listed.contains("web") && listed.contains("running"), "{listed}");
    let log = shell.run(&["services", "log", "c1", "web"]).await.expect_success();
    assert!(log.contains("hello\n"), "{log}");
    shell.run(&["services", "stop", "c1", "none"]).await.expect_failure(1, &["no service of that name"]);
    shell
        .run(&["templates", "cancel", "lab@1.0.0"])
        .await
        .expect_failure(1, &["no build of default/lab@1.0.0 runs"]);
    shell.run(&["templates", "rm", "lab@1.0.0"]).await.expect_success();

    let steps = "env: {WORD: hello}\nbuild: {run: ['echo $WORD >/opt/one', 'cat /opt/one; exit 3', 'true']}";
    fs::write(&path, definition("bad@1.0.0", steps)).expect("a file");
    let failed = shell.run(&["templates", "publish", file, "--build"]).await;
    let why = "default/bad@1.0.0 is failed: install: build.run[1] ended with exit code 3";
    assert!(failed.code == 1 && failed.err.contains(why), "{failed:?}");
    // The failed build as a computer: the finished steps are on its disk, and the next one fails there too.
    let opened = shell.run(&["templates", "debug", "bad@1.0.0"]).await;
    assert_eq!(opened.code, 0, "{opened:?}");
    for part in ["build.run[0].", "/root/build/1.sh (build.run[1]), /root/build/2.sh (build.run[2])"] {
        assert!(opened.err.contains(part), "{part} is not in {}", opened.err);
    }
    let again = shell.run(&["bash", opened.out.trim(), "bash -e /root/build/1.sh"]).await;
    assert_eq!((again.code, &*again.out), (3, "hello\n"), "{again:?}");
    shell.run(&["templates", "debug", "none@1.0.0"]).await.expect_failure(1, &["none@1.0.0"]);
    fs::write(&path, "api_version: hotdesk/v1\n").expect("a file");
    let invalid = shell.run(&["templates", "publish", file]).await;
    invalid.expect_failure(1, &["template: is required"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_launched_from_a_template_keeps_its_memory() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    assert_eq!(
        build(&controller, "lab@1.0.0", "build: {run: ['echo built >/opt/x']}").await["status"],
        "ready"
    );
    let workspace = controller.workspace("w").await;
    let launched = launch(&controller, &workspace, "one", "lab@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    controller.bash(&id, "echo mine >>/opt/x").await;
    for verb in ["suspend", "resume"] {
        let done = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert_eq!(done.status, 200, "{}", done.body);
    }
    assert_eq!(controller.bash(&id, "cat /opt/x").await, "built\nmine\n");
    let forked = controller.post(&format!("/computers/{id}/fork"), json!({})).await;
    assert_eq!(controller.bash(&id_of(&forked.body), "cat /opt/x").await, "built\nmine\n");
}
