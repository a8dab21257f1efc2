//! Computers that are saved as templates (docs/api/templates.md#save-a-computer).

use std::fs;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::domain::identity::access::Role;
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use super::builds::{build, launch, layers};
use crate::access::cast::add_key;
use crate::cli::person::Shell;
use crate::clients::python;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::browser::person;
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::host::names_in;
use crate::harness::simulation::Simulation;
use crate::plans;

/// Text of a secret that no layer may have.
const SECRET: &str = "canary-value-of-a-secret-7f1d";
/// Longest time until a call of the engine is reached.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn save(controller: &Caller, computer: &str, reference: &str) -> HttpAnswer {
    controller.post(&format!("/computers/{computer}/template"), json!({"ref": reference})).await
}

/// Saves a computer while it runs and when it is stopped, and launches both. `Simulation` has no programs.
async fn save_and_launch(controller: &RunningController) {
    let base = "build: {run: ['mkdir /opt/lab; echo built >/opt/lab/built; echo old >/opt/lab/old']}\n\
                env: {LAB: here}";
    assert_eq!(build(controller, "lab@1.0.0", base).await["status"], "ready");
    let below = layers(controller).len();
    let workspace = controller.workspace("w").await;
    let set = controller.request(Method::PUT, "/secrets/CANARY").json(&json!({"value": SECRET}));
    assert_eq!(fetch_json(set).await.status, 200);
    let source = id_of(&launch(controller, &workspace, "desk", "lab@1.0.0").await.body);
    let synced = controller.post(&format!("/computers/{source}/secrets/sync"), json!({})).await;
    assert_eq!(synced.status, 200, "{}", synced.body);
    let work = "set -e; echo mine >/opt/lab/mine; rm /opt/lab/old; echo changed >>/opt/lab/built; \
                echo left >/tmp/left; useradd --create-home painter; chown painter /opt/lab/mine; \
                cat /root/.env";
    let seen = controller.bash(&source, work).await;
    assert!(seen.contains(SECRET), "the computer has the secret: {seen}");

    let record = controller.record(&source).await;
    let password = record["vnc_password"].as_str().expect("a password").to_owned();
    let saved = save(controller, &source, "default/desk@1.0.0").await;
    assert_eq!(
        (saved.status, &saved.body["status"], &saved.body["published"]),
        (201, &json!("ready"), &json!(true)),
        "{}",
        saved.body
    );
    assert_eq!(layers(controller).len(), below + 1, "one layer more");
    assert_eq!(controller.machines(), std::slice::from_ref(&source), "the copy is gone");
    let own = controller.bash(&source, "cat /opt/lab/mine /tmp/left").await;
    assert_eq!(own, "mine\nleft\n", "the computer goes on");
    let stored = controller.get("/templates/default/desk/1.0.0").await.body;
    assert_eq!(stored["template"]["hardware"]["ram_gb"], 4, "{stored}");

    let stopped = controller.post(&format!("/computers/{source}/stop"), json!({})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.body);
    controller.until_status(&source, "stopped").await;
    let saved = save(controller, &source, "default/desk@1.0.1").await;
    assert_eq!(saved.status, 201, "{}", saved.body);
    assert_eq!(controller.machines(), std::slice::from_ref(&source));

    let mut identities = Vec::new();
    for (name, template) in [("one", "desk@1.0.0"), ("two", "desk@1.0.1")] {
        let launched = launch(controller, &workspace, name, template).await;
        assert_eq!(launched.status, 201, "{}", launched.body);
        let id = id_of(&launched.body);
        let look = "cat /opt/lab/mine /opt/lab/built; stat -c %U /opt/lab/mine; ls -A /opt/lab; echo $LAB; \
                    ls /tmp/left /root/.env/ 2>/dev/null; cat /root/.env 2>/dev/null; echo end";
        let seen = controller.bash(&id, look).await;
        assert_eq!(seen, "mine\nbuilt\nchanged\npainter\nbuilt\nmine\nhere\nend\n", "{template}");
        identities.push(controller.bash(&id, "cat /etc/machine-id").await);
    }
    assert_ne!(identities[0], identities[1]);
    let found = Command::new("grep")
        .args(["--recursive", "--files-with-matches", "--fixed-strings"])
        .args(["--regexp", SECRET, "--regexp", &password])
        .arg(controller.data_dir().join("layers"))
        .output()
        .expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "layers have the secret or the password");
    assert_eq!(found.status.code(), Some(1), "{found:?}");

    // The template outlives the computer, and nothing builds it anew.
    assert_eq!(controller.delete(&format!("/computers/{source}")).await.status, 200);
    let again = controller.post("/templates/default/desk/1.0.0/build", json!({})).await;
    assert_eq!((&again.body["status"], &again.body["reused"]), (&json!("ready"), &json!(true)));
    let third = launch(controller, &workspace, "three", "desk@1.0.0").await;
    assert_eq!(controller.bash(&id_of(&third.body), "cat /opt/lab/mine").await, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_container_is_launched_with_its_files_and_without_its_secrets() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    save_and_launch(&RunningController::boot().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_sandbox_is_launched_with_its_files_and_without_its_secrets() {
    let Some(configuration) = gvisor() else { return };
    save_and_launch(&RunningController::boot_with(&configuration).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_saves_and_runs() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let shell = Shell::with_key(controller.base(), controller.key());
    shell.run(&["workspaces", "create", "w"]).await.expect_success();
    shell.run(&["computers", "create", "c1", "--workspace", "w"]).await.expect_success();
    shell.run(&["bash", "c1", "echo mine >/opt/x"]).await.expect_success();
    let save = ["computers", "save-template", "c1", "desk@1.0.0", "--description", "My desk"];
    let saved = shell.run(&save).await.expect_success();
    assert_eq!(saved, "Saved c1 as default/desk@1.0.0.\n");
    let twice = shell.run(&["computers", "save-template", "c1", "desk@1.0.0"]).await;
    twice.expect_failure(1, &["default/desk@1.0.0 is published already: raise the version"]);
    let run = shell.run(&["templates", "run", "desk@1.0.0"]).await;
    assert!(run.code == 0 && run.err.contains("To stop it earlier: hotdesk computers delete"), "{run:?}");
    let id = run.out.trim();
    assert_eq!(shell.run(&["bash", id, "cat /opt/x"]).await.expect_success(), "mine\n");
    shell.run(&["computers", "delete", id, "--yes"]).await.expect_success();
    shell.run(&["templates", "run", "a b"]).await.expect_failure(1, &["a b is no template"]);
    shell.run(&["templates", "run", "lab"]).await.expect_failure(1, &["Template not found: default/lab"]);
    let create = ["computers", "create", "c2", "--workspace", "w", "--template", "desk"];
    shell.run(&create).await.expect_success();
    assert_eq!(shell.run(&["bash", "c2", "cat /opt/x"]).await.expect_success(), "mine\n");
}

/// Name of the folder of layers, which a simulated host has among its machines.
const LAYERS: &str = "layers";

/// The numbers of layers and machines on a simulated host, the account's templates, and the status of a computer.
async fn remains(controller: &Simulation, computer: &str) -> (usize, usize, Value) {
    let machines = controller.machines().into_iter().filter(|name| name != LAYERS).count();
    let folder = controller.disk(computer);
    let host = folder.ancestors().nth(2).expect("the folder of the machines");
    let templates = controller.get("/templates").await.body["templates"].clone();
    (names_in(&host.join(LAYERS)).len(), machines, json!([templates, controller.status(computer).await]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_fails_or_dies_leaves_nothing_and_can_be_repeated() {
    let mut controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    fs::write(controller.disk(&desk).join("note"), "kept").expect("a file");
    let nothing = (0, 1, json!([[], "running"]));
    for verb in [Verb::CopyDisk, Verb::KeepLayer] {
        for after in [false, true] {
            let error = EngineError::failed("test", "planned");
            let failure = if after { Failure::After(error) } else { Failure::Before(error) };
            let call = controller.engine.calls(verb) + 1;
            controller.engine.plan(Fault { verb, call, failure });
            let failed = save(&controller, &desk, "default/desk@1.0.0").await;
            assert_eq!(failed.status, 500, "{verb:?} {after}: {}", failed.body);
            assert_eq!(failed.body["error"], "The computer could not be saved as a template");
            assert_eq!(remains(&controller, &desk).await, nothing, "{verb:?} {after}");
        }
        for done in [false, true] {
            let call = controller.engine.calls(verb) + 1;
            controller.engine.plan(Fault { verb, call, failure: Failure::Never { done } });
            let stuck = wait::until(TIMEOUT, || async { (controller.engine.stuck() > 0).then_some(()) });
            tokio::select! {
                ended = save(&controller, &desk, "default/desk@1.0.0") => panic!("{}", ended.body),
                stuck = stuck => stuck.expect("a running save"),
            }
            // Another save of the reference waits for no copy.
            let twice = save(&controller, &desk, "default/desk@1.0.0").await;
            assert_eq!((twice.status, &twice.body["code"]), (409, &json!("template_exists")));
            // Nor does a publication, which cancels builds of removed documents.
            let other = "api_version: hotdesk/v1\nname: other@1.0.0\n".to_owned();
            let published = fetch_json(controller.request(Method::POST, "/templates").body(other)).await;
            assert_eq!(published.status, 201, "{}", published.body);
            assert_eq!(controller.delete("/templates/default/other/1.0.0").await.status, 200);
            controller.kill().await;
            controller.until_status(&desk, "running").await;
            let cleared = wait::until(TIMEOUT, || async {
                (remains(&controller, &desk).await == nothing).then_some(())
            });
            assert!(cleared.await.is_some(), "{verb:?} {done}: {:?}", remains(&controller, &desk).await);
        }
    }
    let saved = save(&controller, &desk, "default/desk@1.0.0").await;
    assert_eq!((saved.status, &saved.body["status"]), (201, &json!("ready")), "{}", saved.body);
    controller.restart().await;
    let launched = launch(&controller, &home, "copy", "desk@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let note = controller.disk(&id_of(&launched.body)).join("note");
    assert_eq!(fs::read_to_string(note).expect("a file of the layer"), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_have_the_conflicts_and_bounds_of_builds() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    for (reference, status, code) in [
        ("desk@1.0.0", 400, json!(null)),
        ("system/desk@1.0.0", 400, json!(null)),
        ("default/Desk@1.0.0", 422, json!("template_invalid")),
        ("default/desk@one", 422, json!("template_invalid")),
    ] {
        let refused = save(&controller, &desk, reference).await;
        assert_eq!((refused.status, &refused.body["code"]), (status, &code), "{}", refused.body);
    }
    assert_eq!(save(&controller, &desk, "default/desk@1.0.0").await.status, 201);
    let twice = save(&controller, &desk, "default/desk@1.0.0").await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("template_exists")), "{}", twice.body);
    // With another guest image the layers cannot be used, and no build may make empty ones.
    controller.sql("UPDATE template_builds SET image = 'other'").await;
    let rebuilt = controller.post("/templates/default/desk/1.0.0/build", json!({})).await;
    let error = rebuilt.body["error"].as_str().unwrap_or_default();
    assert!(rebuilt.status == 409 && error.contains("cannot be built again"), "{}", rebuilt.body);
    let launched = launch(&controller, &home, "copy", "desk@1.0.0").await;
    assert_eq!(
        (launched.status, &launched.body["code"], &launched.body["error"]),
        (409, &json!("TEMPLATE_NOT_READY"), &rebuilt.body["error"]),
        "{}",
        launched.body
    );

    let suspended = controller.post(&format!("/computers/{desk}/suspend"), json!({})).await;
    assert_eq!(suspended.status, 200, "{}", suspended.body);
    let refused = save(&controller, &desk, "default/desk@1.0.1").await;
    let error = refused.body["error"].as_str().unwrap_or_default();
    assert!(refused.status == 409 && error.contains("resume it first"), "{}", refused.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_only_the_owner_saves_with_an_account_wide_key_and_a_plan() {
    let config = plans::config();
    let controller = Simulation::boot_configured(config.clone()).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let path = format!("/computers/{desk}/template");
    let store = controller.store().await;
    let member = person(&store, "member@localhost").await.id;
    store.set_member(home.parse().expect("an id"), member, Role::Admin).await.expect("a member");
    let operator = store.operator_account().await.expect("the operator");
    let keys = [add_key(&store, member, None).await, add_key(&store, operator, Some(&home)).await];
    for (key, why) in keys.iter().zip(["only the owner", "scoped"]) {
        let request = controller.request_with(key, Method::POST, &path);
        let refused = fetch_json(request.json(&json!({"ref": "default/desk@1.0.0"}))).await;
        let error = refused.body["error"].as_str().unwrap_or_default();
        assert!(refused.status == 403 && error.contains(why), "{}", refused.body);
    }
    let small = plans::small_account(&controller).await;
    let body = json!({"workspace_id": small.workspace, "name": "desk"});
    let make = controller.request_with(&small.key, Method::POST, "/computers").json(&body);
    let own = id_of(&fetch_json(make).await.body);
    let request = controller.request_with(&small.key, Method::POST, &format!("/computers/{own}/template"));
    let refused = fetch_json(request.json(&json!({"ref": "default/desk@1.0.0"}))).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("UPGRADE_REQUIRED")),
        "{}",
        refused.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pypi_client_launches_references_and_hears_why_it_builds_no_images() {
    let Some(python) = python() else { return };
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    assert_eq!(save(&controller, &desk, "default/desk@1.0.0").await.status, 201);
    let latest = controller.get("/builds/latest?orgId=a&projectId=b&name=c").await;
    let error = latest.body["error"].as_str().unwrap_or_default();
    assert!(latest.status == 404 && error.contains("hotdesk templates publish"), "{}", latest.body);
    for path in ["/builds/create", "/builds/update"] {
        assert_eq!(controller.post(path, json!({"buildId": "x"})).await.status, 422, "{path}");
        let unknown = controller.bare(Method::POST, &format!("/api{path}")).json(&json!({}));
        assert_eq!(fetch_json(unknown).await.status, 401, "{path}");
    }
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/orgo_templates.py"));
    client.arg(format!("{}/api", controller.base)).arg("default/desk@1.0.0");
    client.env("ORGO_API_KEY", controller.key());
    let ran =
        tokio::task::spawn_blocking(move || client.output()).await.expect("no panic").expect("it starts");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    assert!(output.ends_with("all sequences passed\n"), "{output}");
}
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_during_a_save_leaves_all_of_it_or_nothing() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot().await;
    let workspace = controller.workspace("w").await;
    let desk = id_of(&controller.computer(&workspace, "desk").await);
    // The copy of it takes longer than the look for the unfinished layer.
    controller.bash(&desk, "head -c 400M /dev/urandom >/opt/large").await;
    let copying = wait::until(TIMEOUT, || async {
        layers(&controller).iter().any(|name| name.ends_with(".new")).then_some(())
    });
    tokio::select! {
        ended = save(&controller, &desk, "default/desk@1.0.0") => panic!("no layer was seen: {}", ended.body),
        copying = copying => copying.expect("a layer that is being made"),
    }
    controller.kill();
    controller.start_again().await;
    controller.until_status(&desk, "running").await;
    let cleared = wait::until(TIMEOUT, || async {
        let found = controller.get("/templates/default/desk/1.0.0").await;
        let expected = if found.status == 404 { 0 } else { 1 };
        (controller.machines().len() == 1 && layers(&controller).len() == expected).then_some(())
    });
    assert!(cleared.await.is_some(), "{:?} {:?}", controller.machines(), layers(&controller));
    let again = save(&controller, &desk, "default/desk@1.0.1").await;
    assert_eq!(again.status, 201, "{}", again.body);
}
