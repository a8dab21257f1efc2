//! `GET /health`: is the computer ready, and what does it have?

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::agent::state::Agent;
use crate::domain::error::{Error, Result};
use crate::wire::agent::Health;

pub fn router() -> Router<Agent> {
    Router::new().route("/health", get(health))
}

async fn health(State(agent): State<Agent>) -> Result<Answer<Health>> {
    let read = tokio::task::spawn_blocking(memory).await;
    let read = read.map_err(|error| Error::internal(format!("reading the memory broke down: {error}")))?;
    let (memory_total_bytes, memory_used_bytes) =
        read.map_err(|error| Error::internal(format!("reading the memory: {error}")))?;
    // Counts what affinity and the cgroup's quota leave of the host's processors.
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

/// Total and used bytes: of the cgroup where it has a limit of its own, else of the machine.
fn memory() -> Result<(u64, u64), sysinfo::Error> {
    let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kinds)?;
    Ok(match system.cgroup_limits() {
        Some(limits) if limits.total_memory < system.total_memory() => {
            (limits.total_memory, limits.total_memory.saturating_sub(limits.free_memory))
        }
        _ => (system.total_memory(), system.used_memory()),
    })
}
