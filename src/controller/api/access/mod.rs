//! API keys, SSH keys, secrets and the audit log over HTTP.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod audit;
pub mod keys;
pub mod secrets;
pub mod ssh_keys;

/// Returns the routes of keys, secrets and the audit log.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(keys::router())
        .merge(ssh_keys::router())
        .merge(secrets::router())
        .merge(audit::router())
}
