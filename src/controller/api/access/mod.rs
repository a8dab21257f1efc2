//! API keys, SSH keys, secrets and the audit log over HTTP.

use crate::api::api_router::ApiRouter;

pub mod audit;
pub mod keys;
pub mod secrets;
pub mod ssh_keys;

/// Returns the routes of keys, secrets and the audit log.
pub fn router<R: ApiRouter>() -> R {
    R::new().merge(keys::router()).merge(ssh_keys::router()).merge(secrets::router()).merge(audit::router())
}
