//! Do real client programs work against hotdesk unmodified, by a base URL alone?

use std::path::PathBuf;
use std::process::Command;

use crate::harness::controller::{RunningController, no_computers_here};

/// The interpreter of the tests' virtual environment (`make deps-test`).
pub fn python() -> Option<PathBuf> {
    let chosen = std::env::var_os("HOTDESK_PYTHON").map(PathBuf::from);
    let python = chosen.unwrap_or_else(|| PathBuf::from("/var/cache/hotdesk/venv/bin/python"));
    python.exists().then_some(python)
}

#[tokio::test]
async fn the_pypi_client_speaks_its_sequences() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let Some(python) = python() else { return println!("skipped: no Python environment (make deps-test)") };
    let house = RunningController::boot().await;
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/orgo_client.py"));
    client.arg(format!("{}/api", house.base())).env("ORGO_API_KEY", house.key());
    let ran = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.ends_with("all sequences spoken\n"), "{said}");
}
