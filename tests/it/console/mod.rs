//! Console in Chromium: each flow of `tests/python/console` against a real controller and a real computer.

mod live;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent_accounts;
use crate::chat::scene;
use crate::clients::python;
use crate::floors::root;
use crate::harness::caller::Caller;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::models::{ScriptedModels, Turn};
use crate::harness::simulation::Simulation;

/// Sign-in links of a flow: each page of another browser needs one.
const LINKS: usize = 4;

/// Where the pictures of pages go: `HOTDESK_PICTURES`, else a folder beside the build.
fn pictures() -> PathBuf {
    let folder = std::env::var_os("HOTDESK_PICTURES").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("console"),
        |folder| Path::new(&folder).join("console"),
    );
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    folder
}

/// Runs one flow. `None` when the controller cannot run here, which has printed why.
async fn flow(name: &str, controller: Option<RunningController>, has_model: bool) {
    let Some(controller) = controller else { return };
    let Some(python) = tools() else { return };
    let workspace = controller.workspace("demo").await;
    let computer = controller.computer(&workspace, "desk").await;
    let ended = play(name, python, &controller, computer, has_model).await;
    if let Err(error) = ended {
        panic!("{error}\n{}", controller.log());
    }
}

/// The Python with Playwright. Where it or Chromium is missing, prints the reason and returns `None`.
fn tools() -> Option<PathBuf> {
    let python = python()?;
    if !Path::new("/usr/bin/chromium").exists() {
        Capability::Browser.skip("Chromium is not installed (make deps-test)");
        return None;
    }
    Some(python)
}

/// Plays a flow with the owner of this key.
async fn play(
    name: &str,
    python: PathBuf,
    caller: &Caller,
    computer: Value,
    has_model: bool,
) -> Result<(), String> {
    let mut links = Vec::new();
    for _ in 0..LINKS {
        links.push(caller.create("/user/sign-in-links", json!({})).await["url"].clone());
    }
    let axe = root().join("src/clients/console/node_modules/axe-core/axe.min.js");
    let given = json!({
        "url": caller.base,
        "key": caller.key,
        "links": links,
        "computer": computer,
        "axe": std::fs::read_to_string(axe).expect("axe, which packaging/dev/console installs"),
        "pictures": pictures(),
        "all_pictures": std::env::var_os("HOTDESK_PICTURES").is_some(),
        "has_model": has_model,
    });
    let script = root().join("tests/python/console").join(name);
    tokio::task::spawn_blocking(move || run(&python, &script, &given)).await.expect("a flow")
}

/// The script gets what it works with by its standard input: it has a key.
fn run(python: &Path, script: &Path, given: &Value) -> Result<(), String> {
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let written = writeln!(input, "{given}");
    drop(input);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    // A stop-watch, where a flow has one.
    println!("{}", String::from_utf8_lossy(&output.stdout));
    if output.status.success() && written.is_ok() {
        return Ok(());
    }
    Err(format!("{written:?}\n{}", String::from_utf8_lossy(&output.stderr)))
}

async fn small() -> Option<RunningController> {
    small_with("").await
}

/// A controller with the small image and these lines of configuration. Where no computer can run, prints the
/// reason and returns `None`.
async fn small_with(configuration: &str) -> Option<RunningController> {
    if let Some(skip) = skip_reason() {
        skip.report();
        return None;
    }
    Some(RunningController::boot_with(configuration).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_is_seen_live_and_looked_after() {
    flow("fleet.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_takes_a_screen_from_an_agent_and_hands_it_back() {
    flow("screen.py", RunningController::boot_full().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_watched_and_stopped_beside_its_screen() {
    // Commands that end when the flow makes the file, and never.
    let until = |file: &str| format!("until [ -e /tmp/{file} ]; do sleep 0.1; done");
    let command = |file: &str| json!({"command": until(file), "timeout": 120});
    let click = json!({"action": "left_click", "coordinate": [200, 150]});
    let models = ScriptedModels::start(vec![
        Turn::text("I wait for the page.").then_call("bash", &command("page")),
        // Refused, because a person has the screen.
        scene::computer(click.clone()),
        scene::computer(click),
        Turn::text("The coffee is ordered."),
        Turn::text("I look for a cake.").then_call("bash", &command("cake")),
    ])
    .await;
    flow("chat.py", small_with(&scene::configuration(&models)).await, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_that_changes_quickly_is_drawn_by_video() {
    flow("video.py", RunningController::boot_full().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_five_minutes_lead_to_an_agent_at_work() {
    flow("first_minutes.py", RunningController::boot_full().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_files_and_processes_are_worked_with() {
    flow("work.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_seen_with_its_pictures() {
    flow("activity.py", RunningController::boot_full().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_written_built_and_launched() {
    flow("templates.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_secrets_and_members_are_managed() {
    flow("settings.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sees_what_the_host_has_and_lacks() {
    flow("host.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_the_service_are_walked_through() {
    let Some(python) = tools() else { return };
    let controller = Simulation::boot_configured(agent_accounts::config()).await;
    let ended = play("pages.py", python, &controller, Value::Null, false).await;
    ended.unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_is_read_searched_and_tried() {
    flow("docs.py", small().await, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_over_gvisor_is_looked_after_too() {
    let Some(configuration) = gvisor() else { return };
    flow("fleet_sandboxes.py", Some(RunningController::boot_with(&configuration).await), false).await;
}
