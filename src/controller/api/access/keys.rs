//! API keys over HTTP (wire.md 13, 20).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::action::Done;
use hotdesk_wire::key::{CreateKey, KeyList, KeyQuery, MintedKey};

/// The routes of keys.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(delete))
}

/// The account's keys, without their texts. A key that reaches one workspace sees those of that workspace.
#[utoipa::path(get, path = "/keys", tag = "keys", params(KeyQuery),
    responses((status = 200, description = "All of them, oldest first", body = KeyList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Query(query): Query<KeyQuery>,
) -> Result<Json<KeyList>> {
    let keys = app.visible_keys(&caller, query.workspace_id.as_deref()).await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(|key| app.key_record(key)).collect() }))
}

/// Makes a key. A key that reaches one workspace makes keys for that workspace only.
#[utoipa::path(post, path = "/keys", tag = "keys", request_body = CreateKey,
    responses((status = 201, description = "The key, whose text is shown this once", body = MintedKey)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Body(wanted): Body<CreateKey>,
) -> Result<(StatusCode, Json<MintedKey>)> {
    let status = StatusCode::CREATED;
    let (key, text) = app.mint_key(&caller, &wanted.name, wanted.workspace_id.as_deref(), status).await?;
    let text = text.reveal().to_owned();
    Ok((status, Json(MintedKey { key: text.clone(), api_key: text, record: app.key_record(key) })))
}

/// Deletes a key. Its next request is refused, and every request that goes on under it ends.
#[utoipa::path(delete, path = "/keys/{id}", tag = "keys", params(("id" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Done>> {
    app.delete_key(&caller, &id, StatusCode::OK).await?;
    Ok(Json(Done { success: true }))
}
