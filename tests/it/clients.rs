//! Do real client programs work against hotdesk unmodified, by a base URL alone?

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::harness::controller::{RunningController, no_computers_here};
use crate::harness::rtmp::{RtmpServer, probe};
use crate::harness::world::World;

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
    // Streaming needs the full image, for its encoder, and a server that its computer reaches.
    let full = RunningController::boot_full().await;
    let world = World::new();
    let server = if full.is_some() { RtmpServer::in_the(&world).await } else { None };
    let house = match full {
        Some(house) => house,
        None => RunningController::boot().await,
    };
    if let Some(server) = &server {
        let saved = json!({"name": "saved", "url": server.url("live"), "key": "k"});
        house.made("/stream/connections", saved).await;
    }
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/orgo_client.py"));
    client.arg(format!("{}/api", house.base())).env("ORGO_API_KEY", house.key());
    client.arg(if server.is_some() { "streams" } else { "no-streams" });
    let ran = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.ends_with("all sequences spoken\n"), "{said}");
    if let Some(server) = &server {
        assert_eq!(probe(&server.received(1).await).0, ["aac", "h264"]);
    }
}
