//! Longest build (`limits.build_seconds`): one whose step does not end fails, and nothing of it stays.

use std::sync::Arc;

use axum::routing::{any, post};
use axum::{Json, Router};
use hotdesk::controller::config::Limits;
use hotdesk::engine::Engine;
use hotdesk::engine::simulated::AgentBoot;
use serde_json::{Value, json};

use super::builds::{build, log};
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Routes of an agent whose only process runs for ever without output.
pub fn endless_process() -> Router {
    let process = async || -> Json<Value> {
        Json(json!({"id": "1", "pid": 2, "name": null, "command": "sleep", "status": "running",
            "exit_code": null, "signal": null, "tree_running": true, "stdin": "closed",
            "started_at": "2026-01-01T00:00:00.000Z", "ended_at": null, "output_bytes": 0, "stdout_bytes": 0,
            "stderr_bytes": 0, "followers": 0}))
    };
    Router::new()
        .route("/processes", post(process))
        .route("/processes/{id}", any(process))
        .route("/processes/{id}/stdin", any(async || Json(json!({"written": 10, "eof": true}))))
        .route("/processes/{id}/output", any(std::future::pending::<()>))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_without_an_end_fails_at_its_timeout_and_leaves_nothing() {
    let limits = Limits { build_seconds: 1, ..Limits::default() };
    let agent = Arc::new(|_: &AgentBoot| default_agent().merge(endless_process()));
    let controller = Simulation::boot_with_agent(agent, Setup { limits, ..Setup::default() }).await;
    let status = build(&controller, "slow@1.0.0", "build: {run: ['sleep 7200']}").await;
    assert_eq!(
        (&status["status"], &status["error"]),
        (&json!("failed"), &json!("the build took too long")),
        "{status}"
    );
    let log = log(&controller, "slow@1.0.0").await;
    assert!(log.iter().any(|entry| entry["phase"] == "timeout"), "{log:?}");
    let engine = &controller.engine;
    assert!(
        engine.list().await.expect("machines").is_empty()
            && engine.layers().await.expect("layers").is_empty()
    );
    assert!(controller.store().await.template_layers().await.expect("the store").is_empty());
}
