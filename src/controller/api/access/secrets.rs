//! Secrets over HTTP (docs/api/secrets.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::secrets::Secrets;
use hotdesk_domain::secret::SecretName;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::secrets::{SecretOwner, StoredSecret};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::secret::{
    SecretList, SecretQuery, SecretRecord, SetSecret, SyncResult, SyncSecrets,
};

/// Returns the routes of secrets.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list_secrets))
        .routes(routes!(get_secret, set_secret, delete_secret))
        .routes(routes!(sync_secrets))
}

/// Lists the secrets of the account or of a workspace, without their values.
#[utoipa::path(get, path = "/secrets", tag = "secrets", params(SecretQuery),
    responses((status = 200, description = "The secrets, sorted by name", body = SecretList)))]
async fn list_secrets(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<SecretQuery>,
) -> Result<Json<SecretList>> {
    let secrets = app.secrets.list(&caller, query.workspace_id.as_deref()).await?;
    Ok(Json(SecretList { secrets: secrets.into_iter().map(record).collect() }))
}

/// Returns a secret without its value, which no request returns.
#[utoipa::path(get, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path), SecretQuery),
    responses((status = 200, description = "The secret", body = SecretRecord)))]
async fn get_secret(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    Query(query): Query<SecretQuery>,
) -> Result<Json<SecretRecord>> {
    Ok(Json(record(app.secrets.get(&caller, query.workspace_id.as_deref(), &name).await?)))
}

/// Stores a secret, or replaces its value.
///
/// Only admins and the owner set secrets of a workspace. The name has 1 to 64 capital letters, digits and
/// underscores, a letter first. Computers get a new value by the next sync.
#[utoipa::path(put, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path)),
    request_body = SetSecret,
    responses((status = 200, description = "The secret, without its value", body = SecretRecord)))]
async fn set_secret(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    Body(wanted): Body<SetSecret>,
) -> Result<Json<SecretRecord>> {
    let saved = app.secrets.save(&caller, wanted.workspace_id.as_deref(), &name, &wanted.value).await?;
    Ok(Json(record(saved)))
}

/// Deletes a secret.
///
/// Only admins and the owner delete secrets of a workspace. Computers that have it keep it until their next
/// sync or boot.
#[utoipa::path(delete, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path), SecretQuery),
    responses((status = 200, description = "The secret was deleted", body = Acknowledgement)))]
async fn delete_secret(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(name): Path<String>,
    Query(query): Query<SecretQuery>,
) -> Result<Json<Acknowledgement>> {
    app.secrets.delete(&caller, query.workspace_id.as_deref(), &name).await?;
    Ok(Json(Acknowledgement { success: true }))
}

/// Writes secrets to `/root/.env` of a computer, as shell variables.
///
/// Without `names` they are all that the caller may use on it: those of its workspace. Account-wide credentials of its
/// owner also write those of the account. The file is in memory, replaces the previous one, and is
/// gone after a boot.
#[utoipa::path(post, path = "/computers/{id}/secrets/sync", tag = "secrets", params(("id" = String, Path)),
    request_body = SyncSecrets,
    responses((status = 200, description = "The computer has these secrets now", body = SyncResult)))]
async fn sync_secrets(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<SyncSecrets>,
) -> Result<Json<SyncResult>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let parse = |names: Vec<String>| names.iter().map(|name| SecretName::parse(name)).collect();
    let names: Option<std::result::Result<Vec<_>, _>> = wanted.names.map(parse);
    let names = names.transpose()?;
    Ok(Json(app.secrets.sync(&computer, Secrets::usable(&caller, &computer), names).await?))
}

fn record(secret: StoredSecret) -> SecretRecord {
    let (scope, workspace_id) = match secret.owner {
        SecretOwner::Account(_) => ("account", None),
        SecretOwner::Workspace(workspace) => ("workspace", Some(workspace.to_string())),
    };
    SecretRecord {
        id: secret.id.to_string(),
        name: secret.name.to_string(),
        scope: scope.to_owned(),
        workspace_id,
        created_at: secret.created_at.iso8601(),
        updated_at: secret.updated_at.iso8601(),
    }
}
