//! Accounts that AI agents make for themselves, over HTTP.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::accounts::agents::Work;
use crate::api::NO_STORE;
use crate::origin::Origin;
use crate::{App, Shared};
use hotdesk_base::clock::iso8601;
use hotdesk_base::secret::Secret;
use hotdesk_domain::access::{Caller, check_account_wide};
use hotdesk_domain::error::Error;
use hotdesk_domain::plan::Terms;
use hotdesk_domain::proof::MAX_BITS;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json as Body;
use hotdesk_http::serve::Peer;
use hotdesk_store::agents::AgentAccount;
use hotdesk_wire::action::Done;
use hotdesk_wire::agent_account::{
    AgentAccountState, AgentChallenge, AgentLimits, CreateAgentAccount, MadeAgentAccount, NewClaimLink,
};
use hotdesk_wire::error::ErrorBody;

/// The routes of agents' accounts.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create)).routes(routes!(challenge)).routes(routes!(
        claim_link,
        new_claim_link,
        revoke_claim_link
    ))
}

/// Makes an account for an AI agent that has no key. It works within a small plan until a person opens the claim link and
/// takes it over; if nobody does, it goes with all that it holds. Key and link are told in this answer alone.
#[utoipa::path(post, path = "/agent-accounts", tag = "service", request_body = CreateAgentAccount, responses(
    (status = 201, description = "The account with its key and its claim link", body = MadeAgentAccount),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 403, description = "`agent_accounts_off` or `proof_of_work`", body = ErrorBody),
    (status = 413, description = "More than may be sent at once", body = ErrorBody),
    (status = 429, description = "Too many accounts, of this source or in all", body = ErrorBody),
    (status = 503, description = "`agent_accounts_full`, or the store is away", body = ErrorBody)))]
async fn create(
    State(app): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    origin: Origin,
    Body(wanted): Body<CreateAgentAccount>,
) -> Result<impl IntoResponse> {
    let work = match (&wanted.challenge, &wanted.nonce) {
        (Some(challenge), Some(nonce)) => Some(Work { challenge, nonce }),
        _ => None,
    };
    let source = app.source(&peer, &headers);
    let made = app.make_agent_account(source, wanted.name.as_deref(), work).await?;
    let key = made.key.reveal().to_owned();
    let told = MadeAgentAccount {
        id: made.account.id.to_string(),
        name: made.account.full_name,
        key: key.clone(),
        api_key: key,
        limits: limits(app.terms(made.account.id).await?),
        claim_url: link(&origin, &made.code),
        expires_at: iso8601(made.expires_at),
    };
    Ok((StatusCode::CREATED, NO_STORE, Json(told)))
}

/// The work that comes before an account, where any is asked for.
#[utoipa::path(get, path = "/agent-accounts/challenge", tag = "service", responses(
    (status = 200, description = "The challenge", body = AgentChallenge)))]
async fn challenge(State(app): State<Shared>) -> impl IntoResponse {
    let settings = &app.config.agent_accounts;
    let (challenge, ends) = app.agents.challenge();
    let told = AgentChallenge {
        enabled: settings.enabled,
        challenge,
        algorithm: "sha256".to_owned(),
        bits: settings.proof_of_work_bits.min(MAX_BITS),
        expires_at: iso8601(ends),
    };
    (NO_STORE, Json(told))
}

/// How the claim of the agent's own account stands.
#[utoipa::path(get, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 200, description = "How it stands", body = AgentAccountState)))]
async fn claim_link(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
) -> Result<Json<AgentAccountState>> {
    let agent = own(&app, &caller).await?;
    Ok(Json(AgentAccountState {
        id: agent.account.to_string(),
        name: agent.name,
        claimable: agent.claimable,
        expires_at: iso8601(agent.expires_at),
    }))
}

/// Makes a new claim link for the agent's own account; the one before is dead.
#[utoipa::path(post, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 201, description = "The link", body = NewClaimLink)))]
async fn new_claim_link(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
) -> Result<impl IntoResponse> {
    let agent = own(&app, &caller).await?;
    let code = app.new_claim(agent.account).await?;
    Ok((StatusCode::CREATED, NO_STORE, Json(NewClaimLink { claim_url: link(&origin, &code) })))
}

/// Revokes the claim link of the agent's own account.
#[utoipa::path(delete, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 200, description = "It is dead", body = Done)))]
async fn revoke_claim_link(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
) -> Result<Json<Done>> {
    let agent = own(&app, &caller).await?;
    app.store.set_claim(agent.account, None).await?;
    Ok(Json(Done { success: true }))
}

fn limits(terms: Terms) -> AgentLimits {
    AgentLimits {
        plan: terms.tier,
        max_computers: terms.allowance.computers,
        max_cpu: terms.allowance.cpu,
        max_ram_gb: terms.allowance.ram_gb,
        max_account_ram_gb: terms.allowance.account_ram_gb,
        max_disk_gb: terms.allowance.disk_gb,
    }
}

async fn own(app: &App, caller: &Caller) -> Result<AgentAccount> {
    check_account_wide(caller, "see how the account is claimed")?;
    let agent = app.store.agent_account(caller.account).await?;
    Ok(agent.ok_or_else(|| Error::not_found("This account is not an agent's that waits to be claimed"))?)
}

fn link(origin: &Origin, code: &Secret) -> String {
    format!("{}/claim/{}", origin.0, code.reveal())
}
