//! Clients that foreign generators make from the recorded document: one in Python, one in TypeScript. Each
//! creates a computer and saves a screenshot.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};

const TREE: &str = env!("CARGO_MANIFEST_DIR");

/// A folder of `packaging/dev/deps test`; prints the reason and returns `None` where it is missing.
pub fn installed(folder: &str) -> Option<PathBuf> {
    let cache =
        std::env::var_os("HOTDESK_CACHE").map_or_else(|| PathBuf::from("/var/cache/hotdesk"), PathBuf::from);
    let folder = cache.join(folder);
    if !folder.exists() {
        Capability::Generators.skip("no generators of clients (make deps-test)");
        return None;
    }
    Some(folder)
}

/// Runs a command; panics with its output unless it succeeds.
pub async fn run(mut command: Command) {
    let program = format!("{command:?}");
    let ran =
        tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{program}: {output}\n{errors}");
}

/// A command with this folder first in `PATH`.
pub fn command(bin: &Path, program: &str) -> Command {
    let mut command = Command::new(bin.join(program));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

/// Panics unless the file is a PNG.
pub fn assert_png(picture: &Path) {
    let image = std::fs::read(picture).expect("a screenshot");
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.len() > 1000, "{} bytes", image.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_python_client_makes_a_computer_and_saves_a_png() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(bin) = installed("venv-openapi/bin") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut generate = command(&bin, "openapi-python-client");
    generate.args(["generate", "--meta", "none", "--fail-on-warning"]);
    generate.args(["--path", &format!("{TREE}/packaging/openapi.json")]);
    generate.args(["--config", &format!("{TREE}/packaging/dev/openapi/python.yaml")]);
    generate.arg("--output-path").arg(folder.path().join("generated"));
    run(generate).await;
    let controller = RunningController::boot().await;
    let picture = folder.path().join("shot.png");
    let mut client = command(&bin, "python");
    client.arg(format!("{TREE}/tests/python/generated_client.py")).env("PYTHONPATH", folder.path());
    client.arg(format!("{}/api", controller.base())).arg(&picture).env("HOTDESK_API_KEY", controller.key());
    run(client).await;
    assert_png(&picture);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_typescript_client_makes_a_computer_and_saves_a_png() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(modules) = installed("openapi-tools/node_modules") else { return };
    let bin = modules.join(".bin");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).expect("a link");
    let source = folder.path().join("client.ts");
    std::fs::copy(format!("{TREE}/tests/typescript/generated_client.ts"), &source).expect("a copy");
    std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).expect("a file");
    let mut generate = command(&bin, "openapi-typescript");
    generate.arg(format!("{TREE}/packaging/openapi.json")).arg("-o").arg(folder.path().join("api.d.ts"));
    run(generate).await;
    let mut check = command(&bin, "tsc");
    check.args(["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"]);
    check.args(["--allowImportingTsExtensions", "--skipLibCheck"]).arg(&source).current_dir(folder.path());
    run(check).await;
    let controller = RunningController::boot().await;
    let picture = folder.path().join("shot.png");
    let mut client = command(&bin, "node");
    client.arg(&source).arg(format!("{}/api", controller.base())).arg(&picture);
    client.env("HOTDESK_API_KEY", controller.key());
    run(client).await;
    assert_png(&picture);
}
