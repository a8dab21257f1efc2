//! Route of the SSH server's identity. Connections are a channel (`sockets.rs`).

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};

use crate::system::ssh::SshServers;
use hotdesk_http::error_response::Result;
use hotdesk_wire::computer::ssh::SshHostKeys;

/// Route of the host keys.
pub fn router(servers: SshServers) -> Router {
    Router::new().route("/ssh/host-keys", get(host_keys)).with_state(servers)
}

async fn host_keys(State(servers): State<SshServers>) -> Result<Json<SshHostKeys>> {
    Ok(Json(servers.host_keys().await?))
}
