//! Saved RTMP connections over HTTP: servers to which an account's screens may be streamed.
//!
//! A connection belongs to an account. Keys that are scoped to its workspace, if it has one, can also see,
//! use, replace and remove it.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::computers::rtmp::stream_connections::check_access;
use hotdesk_domain::desktop::stream::{check_key, connection_name};
use hotdesk_domain::name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::fleet::streams::stream_connections::{NewStreamConnection, StreamConnection};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::stream::{Connection as Record, ConnectionList, SaveConnection};

/// Returns the routes of saved connections.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, save)).routes(routes!(remove))
}

/// Lists the saved streaming connections that the key may use, without their stream keys.
#[utoipa::path(get, path = "/stream/connections", tag = "streaming",
    responses((status = 200, description = "The connections, sorted by name", body = ConnectionList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<ConnectionList>> {
    let all = app.store.stream_connections(caller.account, None).await?;
    let seen = all.into_iter().filter(|connection| check_access(&caller, connection).is_ok());
    Ok(Json(ConnectionList { connections: seen.map(record).collect() }))
}

/// Saves an RTMP server and its stream key under a name.
///
/// An existing connection of that name is replaced; a stream key can be changed but never read. A server with
/// a private address is refused unless the service's configuration allows it.
#[utoipa::path(post, path = "/stream/connections", tag = "streaming", request_body = SaveConnection,
    responses(
    (status = 201, description = "The connection was created", body = Record),
    (status = 200, description = "The connection of that name was replaced", body = Record)))]
async fn save(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<SaveConnection>,
) -> Result<(StatusCode, Json<Record>)> {
    let workspace = match wanted.workspace_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => Some(app.directory.find_workspace(&caller, id).await?.id),
        None => caller.scope.as_ref().map(|(id, _)| *id),
    };
    let name = connection_name(&wanted.name)?;
    let url = app.stream_connections.destination(&wanted.url)?.to_string();
    check_key(wanted.key.reveal())?;
    let new = NewStreamConnection { account: caller.account, workspace, name, url, key: wanted.key };
    let (saved, fresh) = app.store.save_stream_connection(&new, |old| check_access(&caller, old)).await?;
    let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(record(saved))))
}

/// Removes a saved connection. A stream in progress is not ended.
#[utoipa::path(delete, path = "/stream/connections/{name}", tag = "streaming",
    params(("name" = String, Path)),
    responses((status = 200, description = "The connection was removed", body = Acknowledgement)))]
async fn remove(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(wanted): Path<String>,
) -> Result<Json<Acknowledgement>> {
    app.stream_connections.find(&caller, &wanted).await?;
    app.store.remove_stream_connection(caller.account, &name::fold(&wanted)).await?;
    Ok(Json(Acknowledgement { success: true }))
}

fn record(connection: StreamConnection) -> Record {
    Record {
        name: connection.name,
        url: connection.url,
        workspace_id: connection.workspace.map(|(id, _)| id.to_string()),
        created_at: connection.created_at.iso8601(),
        updated_at: connection.updated_at.iso8601(),
    }
}
