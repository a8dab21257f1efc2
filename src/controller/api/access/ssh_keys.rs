//! Public SSH keys over HTTP (docs/ssh.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::identity::ssh_keys::SshKey;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::ssh_key::{CreateSshKey, SshKey as Record, SshKeyList};

/// Returns the routes of SSH keys.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list_ssh_keys, add_ssh_key)).routes(routes!(delete_ssh_key))
}

/// Lists the account's public SSH keys.
///
/// A scoped key sees those that were added for its workspace.
#[utoipa::path(get, path = "/keys/ssh", tag = "keys",
    responses((status = 200, description = "All SSH keys, oldest first", body = SshKeyList)))]
async fn list_ssh_keys(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<SshKeyList>> {
    let keys = app.ssh_keys.visible(&caller).await?;
    Ok(Json(SshKeyList { keys: keys.into_iter().map(record).collect() }))
}

/// Adds a public SSH key.
///
/// It opens every computer that the account may use; with a scoped API key, those of its workspace.
#[utoipa::path(post, path = "/keys/ssh", tag = "keys", request_body = CreateSshKey,
    responses((status = 201, description = "The key", body = Record)))]
async fn add_ssh_key(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<CreateSshKey>,
) -> Result<(StatusCode, Json<Record>)> {
    let key = app.ssh_keys.add(&caller, wanted.name.as_deref(), &wanted.public_key).await?;
    Ok((StatusCode::CREATED, Json(record(key))))
}

/// Deletes a public SSH key.
///
/// It opens no further connection; open ones go on.
#[utoipa::path(delete, path = "/keys/ssh/{ssh_key_id}", tag = "keys", params(("ssh_key_id" = String, Path)),
    responses((status = 200, description = "The key was deleted", body = Acknowledgement)))]
async fn delete_ssh_key(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    app.ssh_keys.delete(&caller, &id).await?;
    Ok(Json(Acknowledgement { success: true }))
}

fn record(key: SshKey) -> Record {
    Record {
        id: key.id.to_string(),
        name: key.name,
        public_key: key.public_key,
        fingerprint: key.fingerprint,
        workspace_id: key.workspace.map(|workspace| workspace.to_string()),
        created_at: key.created_at.iso8601(),
    }
}
