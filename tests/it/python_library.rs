//! The Python library `hotdesk`: its wheel, types and retries, and a desktop that it drives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chat::scene;
use crate::examples::blocks;
use crate::floors::root;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::models::ScriptedModels;
use crate::harness::network::TestNetwork;
use crate::harness::program::{last_change, made_once};
use crate::harness::rtmp::{RtmpServer, probe};
use crate::packages::succeed;

/// Time of the sources of the wheel under test, in seconds since 1970.
const SOURCE_DATE: &str = "1767225600";
/// The pages whose Python samples are run with the library.
const PAGES: [&str; 2] = ["docs/clients/python.md", "src/clients/python/README.md"];
/// Prints the folder of the packages of an environment.
const PACKAGES: &str = "import sysconfig; print(sysconfig.get_path('purelib'))";

/// The Python with the tools of the library (`packaging/dev/deps test`). Where there is none, the test is
/// skipped.
fn tools() -> Option<PathBuf> {
    let cache =
        std::env::var_os("HOTDESK_CACHE").map_or_else(|| PathBuf::from("/var/cache/hotdesk"), PathBuf::from);
    let python = cache.join("venv-client/bin/python");
    if !python.exists() {
        Capability::Generators.skip("no Python environment of the library (make deps-test)");
        return None;
    }
    Some(python)
}

/// Builds the wheel into `folder`. Sets of Python have another order with another `seed`.
fn build(folder: &Path, seed: &str, mask: &str) -> PathBuf {
    let mut command = Command::new("sh");
    command.args(["-c", "umask $1; exec \"$2\" \"$3\"", "build", mask]);
    command.arg(root().join("packaging/wheel")).arg(folder);
    succeed(command.env("SOURCE_DATE_EPOCH", SOURCE_DATE).env("PYTHONHASHSEED", seed));
    folder.join(format!("hotdesk-{}-py3-none-any.whl", env!("CARGO_PKG_VERSION")))
}

/// A Python whose environment has the wheel. What the wheel needs comes from the environment of the tools, so
/// that nothing is fetched.
fn installed(tools: &Path) -> PathBuf {
    let inputs = ["src/clients/python", "packaging/openapi.json", "packaging/dev/openapi", "packaging/wheel"];
    let changed = inputs.iter().map(|input| last_change(&root().join(input))).max().expect("inputs");
    let folder = made_once("python-library", changed, |folder| {
        let wheel = build(folder, "0", "022");
        let environment = folder.join("venv");
        succeed(Command::new(tools).args(["-m", "venv", "--without-pip"]).arg(&environment));
        let python = environment.join("bin/python");
        let packages = |python: &Path| succeed(Command::new(python).args(["-c", PACKAGES]));
        let link = Path::new(packages(&python).trim()).join("tools.pth");
        fs::write(link, packages(tools)).expect("a file");
        let mut install = Command::new(tools);
        install.args(["-m", "pip", "--python"]).arg(&python).args(["install", "--quiet", "--no-deps"]);
        succeed(install.args(["--no-index", "--disable-pip-version-check"]).arg(&wheel));
    });
    folder.join("venv/bin/python")
}

/// A command without the settings of whoever runs the tests.
fn isolated(python: &Path, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(folder).env("HOME", folder);
    for name in ["HOTDESK_URL", "HOTDESK_API_KEY", "HOTDESK_PROFILE", "PYTHONPATH"] {
        command.env_remove(name);
    }
    command
}

fn script(name: &str) -> PathBuf {
    root().join("tests/python").join(name)
}

#[test]
fn the_wheel_is_the_same_to_the_byte_and_has_what_users_need() {
    let Some(tools) = tools() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let first = build(&folder.path().join("a"), "1", "022");
    let second = build(&folder.path().join("another/one"), "2", "077");
    assert!(fs::read(&first).expect("a wheel") == fs::read(second).expect("a wheel"), "two builds differ");
    let listed = succeed(Command::new(tools).args(["-m", "zipfile", "--list"]).arg(first));
    for part in [
        "hotdesk/py.typed",
        "hotdesk/_sync/computer.py",
        "hotdesk/rest/api/computers/computers_create.py",
        "hotdesk/rest/models/computer.py",
        "LICENSE-MIT",
    ] {
        assert!(listed.contains(part), "no {part}:\n{listed}");
    }
    assert!(!listed.contains("__pycache__"), "{listed}");
}

#[test]
fn the_library_is_typed() {
    let Some(tools) = tools() else { return };
    let python = installed(&tools);
    let folder = tempfile::tempdir().expect("a folder");
    let mut check = isolated(&tools, folder.path());
    check.args(["-m", "mypy", "--strict", "--python-version", "3.10", "--python-executable"]).arg(&python);
    check.arg("--cache-dir").arg(folder.path().join("cache"));
    let output = succeed(check.args(["--package", "hotdesk"]));
    // A check that finds no package succeeds, too.
    assert!(output.starts_with("Success: no issues found in ") && !output.contains(" in 1 "), "{output}");
}

#[test]
fn changes_are_retried_with_one_key_and_failures_are_typed() {
    let Some(tools) = tools() else { return };
    let python = installed(&tools);
    let folder = tempfile::tempdir().expect("a folder");
    let output = succeed(isolated(&python, folder.path()).arg(script("hotdesk_retries.py")));
    assert!(output.ends_with("done\n"), "{output}");
}

/// Runs a command that may take long, while the runtime goes on; returns its standard output.
async fn run(mut command: Command) -> String {
    tokio::task::spawn_blocking(move || succeed(&mut command)).await.expect("the command succeeds")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_makes_a_desktop_write_a_file() {
    let Some(tools) = tools() else { return };
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let python = installed(&tools);
    let controller = RunningController::boot().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = isolated(&python, folder.path());
    // A connection that the library forgets is an error.
    client.args(["-W", "error::ResourceWarning"]).arg(script("hotdesk_client.py")).arg(folder.path());
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    let output = run(client).await;
    assert!(output.ends_with("done\n"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_follows_runs_of_models_and_their_threads() {
    let Some(tools) = tools() else { return };
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let python = installed(&tools);
    let models = ScriptedModels::start(scene::library_turns()).await;
    let controller = RunningController::boot_with(&scene::configuration(&models)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = isolated(&python, folder.path());
    client.args(["-W", "error::ResourceWarning"]).arg(script("hotdesk_chat.py"));
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    let output = run(client).await;
    assert!(output.ends_with("done\n"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_records_and_streams_a_screen() {
    let Some(tools) = tools() else { return };
    let settings = "[streaming]\nallow_private = true\n";
    let Some(controller) = RunningController::boot_full_with(settings).await else { return };
    let network = TestNetwork::new();
    let Some(server) = RtmpServer::in_network(&network).await else { return };
    let python = installed(&tools);
    let folder = tempfile::tempdir().expect("a folder");
    let video = folder.path().join("screen.mp4");
    let mut client = isolated(&python, folder.path());
    client.args(["-W", "error::ResourceWarning"]).arg(script("hotdesk_recordings.py"));
    client.arg(&video).arg(server.url("live"));
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    let output = run(client).await;
    assert!(output.ends_with("done\n"), "{output}");
    assert_eq!(probe(&video), (vec!["h264".to_owned()], 1280, 720));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_of_the_library_runs() {
    let Some(tools) = tools() else { return };
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let python = installed(&tools);
    // One sample lets a model work.
    let models = ScriptedModels::start(scene::sample_turns()).await;
    let controller = RunningController::boot_with(&scene::configuration(&models)).await;
    let mut count = 0;
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        for block in blocks(&text).iter().filter(|block| block.language == "python") {
            let folder = tempfile::tempdir().expect("a folder");
            let mut sample = isolated(&python, folder.path());
            sample.args(["-c", &block.text]);
            sample.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
            run(sample).await;
            count += 1;
        }
    }
    assert!(count > 8, "found only {count} samples");
}
