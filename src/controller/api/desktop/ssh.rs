//! Identity of a computer's SSH server over HTTP (docs/ssh.md). The byte stream is in [`crate::relay::ssh`].

use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_wire::computer::ssh::SshHostKeys;

/// Returns the route of the host keys.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(ssh_host_keys))
}

/// Returns the user and the public host keys of the computer's SSH server.
///
/// The computer makes its host key at the first request. A computer that is asleep is woken.
#[utoipa::path(get, path = "/computers/{id}/ssh/host-keys", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "User and host keys", body = SshHostKeys)))]
async fn ssh_host_keys(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<SshHostKeys>> {
    // Only those who may connect wake a computer.
    let computer = app.directory.find_computer(&caller.for_change(), &id).await?;
    Ok(Json(app.fleet.guest(&computer).await?.ssh_host_keys().await?))
}
