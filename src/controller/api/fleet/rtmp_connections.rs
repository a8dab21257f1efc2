//! Saved streaming connections over HTTP: the RTMP servers that an account's screens may be streamed to.
//!
//! A connection is the account's, like its workspaces. One that is given to a workspace can also be seen, used, replaced
//! and removed by the keys of that workspace.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{App, Shared};
use hotdesk_base::clock::iso8601;
use hotdesk_domain::access::{self, Caller, Role, Target};
use hotdesk_domain::error::Error;
use hotdesk_domain::name;
use hotdesk_domain::stream::{Destination, check_key, connection_name};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_store::streams::{Connection, NewConnection};
use hotdesk_wire::action::Done;
use hotdesk_wire::stream::{Connection as Record, ConnectionList, SaveConnection};

/// The routes of saved connections.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, save)).routes(routes!(remove))
}

/// The saved streaming connections that the key may use, without their stream keys.
#[utoipa::path(get, path = "/stream/connections", tag = "streaming",
    responses((status = 200, description = "By name", body = ConnectionList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
) -> Result<Json<ConnectionList>> {
    let all = app.store.stream_connections(caller.account, None).await?;
    let seen = all.into_iter().filter(|connection| check(&caller, connection).is_ok());
    Ok(Json(ConnectionList { connections: seen.map(record).collect() }))
}

/// Saves an RTMP server and the key for it under a name. One of that name is replaced: a key can be changed, and never be
/// read. A server with a private address is refused unless the service's configuration allows it.
#[utoipa::path(post, path = "/stream/connections", tag = "streaming", request_body = SaveConnection, responses(
    (status = 201, description = "Saved", body = Record),
    (status = 200, description = "Saved in the place of the one that had the name", body = Record)))]
async fn save(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Body(wanted): Body<SaveConnection>,
) -> Result<(StatusCode, Json<Record>)> {
    let workspace = match wanted.workspace_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => Some(app.find_workspace(&caller, id).await?.id),
        None => caller.scope.as_ref().map(|(id, _)| *id),
    };
    let name = connection_name(&wanted.name)?;
    let url = app.destination(&wanted.url)?.to_string();
    check_key(wanted.key.reveal())?;
    let new = NewConnection { account: caller.account, workspace, name, url, key: wanted.key };
    let (saved, fresh) = app.store.save_stream_connection(&new, |old| check(&caller, old)).await?;
    let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(record(saved))))
}

/// Removes a saved connection. A stream that goes on over it is not ended.
#[utoipa::path(delete, path = "/stream/connections/{name}", tag = "streaming", params(("name" = String, Path)),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn remove(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(wanted): Path<String>,
) -> Result<Json<Done>> {
    app.find_connection(&caller, &wanted).await?;
    app.store.remove_stream_connection(caller.account, &name::fold(&wanted)).await?;
    Ok(Json(Done { success: true }))
}

impl App {
    /// Finds a saved connection by its name, whatever the case, for a caller who may use it.
    ///
    /// # Errors
    /// 404 "Connection not found"; 403 for the key of another workspace.
    pub async fn find_connection(&self, caller: &Caller, wanted: &str) -> Result<Connection> {
        let unknown = || Error::not_found("Connection not found");
        let folded = Some(name::fold(wanted)).filter(|folded| !folded.is_empty()).ok_or_else(unknown)?;
        let found = self.store.stream_connections(caller.account, Some(&folded)).await?.pop();
        let found = found.ok_or_else(unknown)?;
        check(caller, &found)?;
        Ok(found)
    }

    /// Reads where to stream to, and refuses what is known to be private where that is not allowed. What a host name
    /// stands for is checked where it is connected to: by the computer's agent.
    ///
    /// # Errors
    /// `Invalid`, with the code `private_address` for that.
    pub fn destination(&self, url: &str) -> Result<Destination> {
        let destination = Destination::parse(url)?;
        if destination.is_private() && !self.config.streaming.allow_private {
            return Err(Destination::private().into());
        }
        Ok(destination)
    }
}

fn check(caller: &Caller, connection: &Connection) -> Result<(), Error> {
    match &connection.workspace {
        Some((id, name)) => {
            let role = (caller.account == connection.account).then_some(Role::Owner);
            access::check(caller, &Target { id: *id, name, role }).map(|_| ())
        }
        None => access::check_account_wide(caller, "use the account's streaming connections"),
    }
}

fn record(connection: Connection) -> Record {
    Record {
        name: connection.name,
        url: connection.url,
        workspace_id: connection.workspace.map(|(id, _)| id.to_string()),
        created_at: iso8601(connection.created_at),
        updated_at: iso8601(connection.updated_at),
    }
}
