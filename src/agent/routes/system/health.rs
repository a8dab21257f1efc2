//! Route `GET /health`: readiness and resources of the computer.

use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::files::blocking;
use crate::state::Agent;
use crate::system::{memory, usage};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Query;
use hotdesk_wire::agent::{Health, HealthQuery};

/// Longest wait for the desktop: shorter than the timeouts of clients, which ask again.
const MAX_WAIT: Duration = Duration::from_secs(5);

pub fn router() -> Router<Agent> {
    Router::new().route("/health", get(health))
}

async fn health(State(agent): State<Agent>, Query(query): Query<HealthQuery>) -> Result<Answer<Health>> {
    let wait = Duration::from_millis(query.usable_within_ms.into()).min(MAX_WAIT);
    if !wait.is_zero() {
        agent.desktop.until_ready(wait).await;
    }
    let ((memory_total_bytes, memory_used_bytes), (disk_total_bytes, disk_used_bytes), cpu_used_ms) =
        blocking(|| Ok((memory::read()?, usage::disk()?, usage::processor_ms()?))).await?;
    // `available_parallelism` respects the affinity and the cgroup's quota.
    let cpu_count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    Ok(Answer(Health {
        status: if agent.desktop.ready() { "ok" } else { "starting" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: agent.started.elapsed().as_millis() as u64,
        screens: agent.desktop.screens(),
        cpu_count,
        memory_total_bytes,
        memory_used_bytes,
        cpu_used_ms,
        disk_total_bytes,
        disk_used_bytes,
    }))
}
