//! Clients of an operator over HTTP (docs/api/accounts.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::AppState;
use crate::api::NO_STORE;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::accounts::agents;
use crate::identity::auth::keys;
use hotdesk_domain::error::Error;
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_domain::identity::client::{BilledTo, ClientTerms, check_external_id, dollars, micros};
use hotdesk_domain::name::Name;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_store::identity::clients::Client;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::identity::client::{
    Client as Record, ClientList, CreateClient, CreatedClient, RemoveClientQuery, UpdateClient,
};

/// Name of the field with a client's cap, for error messages.
const CAP: &str = "monthly_ai_cap_usd";

/// Returns the routes of clients.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(list, create)).routes(routes!(get, update, remove))
}

/// Creates a client with its own workspace and a key that is scoped to it.
///
/// The key is only in this response. More clients than the account's plan allows: 403 `PLAN_LIMIT`.
#[utoipa::path(post, path = "/v1/accounts", tag = "clients", request_body = CreateClient,
    responses((status = 201, description = "The client with its key", body = CreatedClient)))]
async fn create(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<CreateClient>,
) -> Result<impl IntoResponse> {
    check_account_wide(&caller, "make clients")?;
    let operator = app.store.account(caller.account).await?;
    if operator.is_some_and(|account| account.kind == agents::KIND) {
        return Err(Error::forbidden("An agent's account has no clients until a person claims it")
            .code(ErrorCode::UpgradeRequired)
            .into());
    }
    let external_id = check_external_id(&wanted.external_id)?;
    let name = Name::parse(wanted.name.as_deref().unwrap_or(external_id))?;
    let terms = ClientTerms {
        max_computers: wanted.max_computers,
        monthly_ai_cap: wanted.monthly_ai_cap_usd.map(|usd| micros(CAP, usd)).transpose()?,
        billed_to: wanted.billed_to.as_deref().map(BilledTo::parse).transpose()?.unwrap_or_default(),
    };
    let key = keys::generate();
    let digest = keys::digest(key.reveal());
    let shown = (digest.as_str(), keys::last_four(&key));
    let client = app.store.add_client(caller.account, external_id, &name, &terms, shown, &app.plans).await?;
    let text = key.reveal().to_owned();
    let made = CreatedClient { client: record(client)?, key: text.clone(), api_key: text };
    Ok((StatusCode::CREATED, NO_STORE, Json(made)))
}

/// Lists the operator's clients.
#[utoipa::path(get, path = "/v1/accounts", tag = "clients",
    responses((status = 200, description = "All clients, oldest first", body = ClientList)))]
async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<ClientList>> {
    check_account_wide(&caller, "see clients")?;
    let clients = app.store.clients(caller.account).await?;
    let clients: Vec<Record> = clients.into_iter().map(record).collect::<Result<_>>()?;
    Ok(Json(ClientList { accounts: clients.clone(), clients }))
}

/// Returns a client.
#[utoipa::path(get, path = "/v1/accounts/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    responses((status = 200, description = "The client", body = Record)))]
async fn get(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<Record>> {
    Ok(Json(record(app.clients.find(&caller, &id).await?)?))
}

/// Changes a client.
///
/// Omitted fields stay unchanged; null removes a limit.
#[utoipa::path(patch, path = "/v1/accounts/{client_id}", tag = "clients",
    params(("client_id" = String, Path)),
    request_body = UpdateClient,
    responses((status = 200, description = "The changed client", body = Record)))]
async fn update(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<UpdateClient>,
) -> Result<Json<Record>> {
    let client = app.clients.find(&caller, &id).await?;
    let cap = wanted.monthly_ai_cap_usd.map(|cap| cap.map(|usd| micros(CAP, usd)).transpose()).transpose()?;
    let terms = ClientTerms {
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

/// Deletes a client with its workspace and files.
///
/// Its key is invalid at once. A client with computers is 409 `CLIENT_HAS_COMPUTERS`, unless they are to be
/// deleted too. Its usage can still be read.
#[utoipa::path(delete, path = "/v1/accounts/{client_id}", tag = "clients",
    params(("client_id" = String, Path), RemoveClientQuery),
    responses((status = 200, description = "The client was deleted", body = Acknowledgement)))]
async fn remove(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<RemoveClientQuery>,
) -> Result<Json<Acknowledgement>> {
    let client = app.clients.find(&caller, &id).await?;
    let computers_too = match query.computers.as_deref() {
        None | Some("keep") => false,
        Some("delete") => true,
        Some(_) => return Err(Error::invalid("computers must be delete or keep").into()),
    };
    app.clients.remove(&client, computers_too).await?;
    Ok(Json(Acknowledgement { success: true }))
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
        created_at: client.created_at.iso8601(),
        updated_at: client.updated_at.iso8601(),
    })
}
