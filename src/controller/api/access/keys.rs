//! API keys over HTTP (docs/api/authentication.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_domain::audit::AuditOutcome;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::api_key::{CreateKey, KeyList, KeyQuery, MintedKey};

/// Returns the routes of keys.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, create)).routes(routes!(delete))
}

/// Lists the account's keys, without their texts.
///
/// A scoped key sees the keys of its workspace.
#[utoipa::path(get, path = "/keys", tag = "keys", params(KeyQuery),
    responses((status = 200, description = "All keys, oldest first", body = KeyList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<KeyQuery>,
) -> Result<Json<KeyList>> {
    let keys = app.keys.visible(&caller, query.workspace_id.as_deref()).await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(|key| app.keys.record(key)).collect() }))
}

/// Creates a key.
///
/// A scoped key can only create keys for its workspace.
#[utoipa::path(post, path = "/keys", tag = "keys", request_body = CreateKey,
    responses((status = 201, description = "The key; its text is not available later", body = MintedKey)))]
async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<CreateKey>,
) -> Result<(StatusCode, Json<MintedKey>)> {
    let (key, text) = app.keys.mint(&caller, &wanted.name, wanted.workspace_id.as_deref()).await?;
    let text = text.reveal().to_owned();
    Ok((
        StatusCode::CREATED,
        Json(MintedKey { key: text.clone(), api_key: text, record: app.keys.record(key) }),
    ))
}

/// Deletes a key.
///
/// Its next request is refused, and its requests in progress end.
#[utoipa::path(delete, path = "/keys/{id}", tag = "keys", params(("id" = String, Path)),
    responses((status = 200, description = "The key was deleted", body = Acknowledgement)))]
async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Acknowledgement>> {
    app.keys.delete(&caller, &id, AuditOutcome::CHANGED).await?;
    Ok(Json(Acknowledgement { success: true }))
}
