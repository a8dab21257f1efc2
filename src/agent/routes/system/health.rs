//! Route `GET /health`: readiness and resources of the computer.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::files::blocking;
use crate::state::Agent;
use crate::system::memory;
use hotdesk_http::error_response::Result;
use hotdesk_wire::agent::Health;

pub fn router() -> Router<Agent> {
    Router::new().route("/health", get(health))
}

async fn health(State(agent): State<Agent>) -> Result<Answer<Health>> {
    let (memory_total_bytes, memory_used_bytes) = blocking(memory::read).await?;
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
    }))
}
