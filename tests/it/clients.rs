//! Third-party client programs, used unmodified with only their base URL set.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::network::TestNetwork;
use crate::harness::rtmp::{RtmpServer, probe};

/// The interpreter of the tests' virtual environment (`make deps-test`). Where there is none, the test is skipped.
pub fn python() -> Option<PathBuf> {
    let chosen = std::env::var_os("HOTDESK_PYTHON").map(PathBuf::from);
    let python = chosen.unwrap_or_else(|| PathBuf::from("/var/cache/hotdesk/venv/bin/python"));
    if !python.exists() {
        Capability::Python.skip("no Python environment: make deps-test");
        return None;
    }
    Some(python)
}

#[tokio::test]
async fn the_pypi_client_speaks_its_sequences() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(python) = python() else { return };
    // Streaming needs the full image for its encoder, and a server that its computer can reach.
    let full = RunningController::boot_full().await;
    let world = TestNetwork::new();
    let server = if full.is_some() { RtmpServer::in_network(&world).await } else { None };
    let controller = match full {
        Some(controller) => controller,
        None => RunningController::boot().await,
    };
    if let Some(server) = &server {
        let saved = json!({"name": "saved", "url": server.url("live"), "key": "k"});
        controller.create("/stream/connections", saved).await;
    }
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/orgo_client.py"));
    client.arg(format!("{}/api", controller.base())).env("ORGO_API_KEY", controller.key());
    client.arg(if server.is_some() { "streams" } else { "no-streams" });
    let ran = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    assert!(output.ends_with("all sequences passed\n"), "{output}");
    if let Some(server) = &server {
        assert_eq!(probe(&server.received(1).await).0, ["aac", "h264"]);
    }
}
