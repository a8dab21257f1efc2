//! An operator's clients over HTTP: make, list, read, change, remove (wire.md 14, "Clients API").

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::accounts::agents;
use crate::api::NO_STORE;
use crate::auth::keys;
use crate::{App, Shared};
use hotdesk_base::clock::iso8601;
use hotdesk_domain::access::{Caller, check_account_wide};
use hotdesk_domain::client::{BilledTo, Terms, check_external_id, dollars, micros};
use hotdesk_domain::error::Error;
use hotdesk_domain::name::Name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::clients::Client;
use hotdesk_wire::action::Done;
use hotdesk_wire::client::{
    Client as Record, ClientList, CreateClient, MadeClient, RemoveClientQuery, UpdateClient,
};

/// The field of a client's cap, for its refusals.
const CAP: &str = "monthly_ai_cap_usd";

/// The routes of clients.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, update, remove))
}

/// Makes a client: a workspace of its own, and a key that reaches only it. The key is told in this answer alone.
/// One more than the account's plan gives: 403 `PLAN_LIMIT`.
#[utoipa::path(post, path = "/v1/accounts", tag = "clients", request_body = CreateClient,
    responses((status = 201, description = "The client with its key", body = MadeClient)))]
async fn create(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Body(wanted): Body<CreateClient>,
) -> Result<impl IntoResponse> {
    check_account_wide(&caller, "make clients")?;
    let operator = app.store.account(caller.account).await?;
    if operator.is_some_and(|account| account.kind == agents::KIND) {
        return Err(Error::forbidden("An agent's account has no clients until a person claims it")
            .code("UPGRADE_REQUIRED")
            .into());
    }
    let external_id = check_external_id(&wanted.external_id)?;
    let name = Name::parse(wanted.name.as_deref().unwrap_or(external_id))?;
    let terms = Terms {
        max_computers: wanted.max_computers,
        monthly_ai_cap: wanted.monthly_ai_cap_usd.map(|usd| micros(CAP, usd)).transpose()?,
        billed_to: wanted.billed_to.as_deref().map(BilledTo::parse).transpose()?.unwrap_or_default(),
    };
    let key = keys::fresh();
    let digest = keys::digest(key.reveal());
    let shown = (digest.as_str(), keys::last_four(&key));
    let client = app.store.add_client(caller.account, external_id, &name, &terms, shown, &app.plans).await?;
    let text = key.reveal().to_owned();
    let made = MadeClient { client: record(client)?, key: text.clone(), api_key: text };
    Ok((StatusCode::CREATED, NO_STORE, Json(made)))
}

/// The operator's clients.
#[utoipa::path(get, path = "/v1/accounts", tag = "clients",
    responses((status = 200, description = "All of them, oldest first", body = ClientList)))]
async fn list(State(app): State<Shared>, Authenticated(caller): Authenticated) -> Result<Json<ClientList>> {
    check_account_wide(&caller, "see clients")?;
    let clients = app.store.clients(caller.account).await?;
    let clients: Vec<Record> = clients.into_iter().map(record).collect::<Result<_>>()?;
    Ok(Json(ClientList { accounts: clients.clone(), clients }))
}

/// One client.
#[utoipa::path(get, path = "/v1/accounts/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    responses((status = 200, description = "The client", body = Record)))]
async fn get(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Json<Record>> {
    Ok(Json(record(app.find_client(&caller, &id).await?)?))
}

/// Changes a client; omitted fields stay, null takes a bound away.
#[utoipa::path(patch, path = "/v1/accounts/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    request_body = UpdateClient, responses((status = 200, description = "The changed client", body = Record)))]
async fn update(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<UpdateClient>,
) -> Result<Json<Record>> {
    let client = app.find_client(&caller, &id).await?;
    let cap = wanted.monthly_ai_cap_usd.map(|cap| cap.map(|usd| micros(CAP, usd)).transpose()).transpose()?;
    let terms = Terms {
        max_computers: wanted.max_computers.unwrap_or(client.terms.max_computers),
        monthly_ai_cap: cap.unwrap_or(client.terms.monthly_ai_cap),
        billed_to: match wanted.billed_to.as_deref() {
            Some(payer) => BilledTo::parse(payer)?,
            None => client.terms.billed_to,
        },
    };
    let name = Name::parse(wanted.name.as_deref().unwrap_or(&client.name))?;
    Ok(Json(record(app.store.change_client(caller.account, client.id, &name, &terms).await?)?))
}

/// Removes a client with its workspace and its files; its key is dead from the first moment. While it holds computers 409
/// `CLIENT_HAS_COMPUTERS`, unless they are to go as well. Its usage can still be read.
#[utoipa::path(delete, path = "/v1/accounts/{client_id}", tag = "clients",
    params(("client_id" = String, Path), RemoveClientQuery),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn remove(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<RemoveClientQuery>,
) -> Result<Json<Done>> {
    let client = app.find_client(&caller, &id).await?;
    let computers_too = match query.computers.as_deref() {
        None | Some("keep") => false,
        Some("delete") => true,
        Some(_) => return Err(Error::invalid("computers must be delete or keep").into()),
    };
    app.store.begin_client_removal(&client, computers_too).await?;
    if let Some(workspace) = client.workspace {
        app.remove_computers(client.account, workspace).await?;
    }
    let files = app.store.finish_client_removal(&client).await?;
    app.storage.forget(&files).await;
    Ok(Json(Done { success: true }))
}

impl App {
    /// Finds a client by its id, for its operator.
    ///
    /// # Errors
    /// 404 "Client not found", also for another operator's; 403 for a key of one workspace.
    pub async fn find_client(&self, caller: &Caller, id: &str) -> Result<Client> {
        check_account_wide(caller, "see clients")?;
        let id = id.parse().map_err(|_| Error::not_found("Client not found"))?;
        Ok(self.store.client(caller.account, id).await?)
    }
}

fn record(client: Client) -> Result<Record> {
    let workspace = client.workspace.ok_or_else(|| Error::internal("a client without a workspace"))?;
    Ok(Record {
        id: client.id.to_string(),
        external_id: client.external_id,
        name: client.name,
        workspace_id: workspace.to_string(),
        max_computers: client.terms.max_computers,
        computers_used: client.computers,
        monthly_ai_cap_usd: client.terms.monthly_ai_cap.map(dollars),
        billed_to: client.terms.billed_to.name().to_owned(),
        created_at: iso8601(client.created_at),
        updated_at: iso8601(client.updated_at),
    })
}
