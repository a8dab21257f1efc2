//! Accounts that AI agents create for themselves, over HTTP.

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::api::NO_STORE;
use crate::identity::accounts::challenges::ProofOfWork;
use crate::web::origin::Origin;
use crate::web::source::Source;
use crate::{App, AppState};
use hotdesk_base::secret::Secret;
use hotdesk_domain::billing::plan::AccountTerms;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::{Caller, check_account_wide};
use hotdesk_domain::identity::proof_of_work::MAX_BITS;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json as Body;
use hotdesk_store::identity::agent_accounts::AgentAccount;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::error::ErrorBody;
use hotdesk_wire::identity::agent_account::{
    AgentAccountState, AgentChallenge, AgentLimits, CreateAgentAccount, CreatedAgentAccount, NewClaimLink,
};

/// Returns the routes of agents' accounts.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(create)).routes(routes!(challenge)).routes(routes!(
        claim_link,
        new_claim_link,
        revoke_claim_link
    ))
}

/// Creates an account for an AI agent that has no key.
///
/// The account has a small plan until a person opens the claim link and takes it over. An unclaimed account
/// is removed with all its contents. The key and the link are only in this response.
#[utoipa::path(post, path = "/agent-accounts", tag = "service", request_body = CreateAgentAccount, responses(
    (status = 201, description = "The account with its key and its claim link", body = CreatedAgentAccount),
    (status = 400, description = "The request is malformed", body = ErrorBody),
    (status = 403, description = "`agent_accounts_off` or `proof_of_work`", body = ErrorBody),
    (status = 413, description = "The request body is too large", body = ErrorBody),
    (status = 429, description = "Too many accounts from this address or in total", body = ErrorBody),
    (status = 503, description = "`agent_accounts_full`, or the database is unavailable", body = ErrorBody)))]
async fn create(
    State(app): State<AppState>,
    source: Source,
    origin: Origin,
    Body(wanted): Body<CreateAgentAccount>,
) -> Result<impl IntoResponse> {
    let work = match (&wanted.challenge, &wanted.nonce) {
        (Some(challenge), Some(nonce)) => Some(ProofOfWork { challenge, nonce }),
        _ => None,
    };
    let made = app.agent_signup.create(source, wanted.name.as_deref(), work).await?;
    let key = made.key.reveal().to_owned();
    let record = CreatedAgentAccount {
        id: made.account.id.to_string(),
        name: made.account.full_name,
        key: key.clone(),
        api_key: key,
        limits: limits(app.billing.terms(made.account.id).await?),
        claim_url: link(&origin, &made.code),
        expires_at: made.expires_at.iso8601(),
    };
    Ok((StatusCode::CREATED, NO_STORE, Json(record)))
}

/// Returns a proof-of-work challenge for a new account.
#[utoipa::path(get, path = "/agent-accounts/challenge", tag = "service", responses(
    (status = 200, description = "The challenge", body = AgentChallenge)))]
async fn challenge(State(app): State<AppState>) -> impl IntoResponse {
    let settings = &app.config.agent_accounts;
    let (challenge, ends) = app.agent_signup.challenge();
    let record = AgentChallenge {
        enabled: settings.enabled,
        challenge,
        algorithm: "sha256".to_owned(),
        bits: settings.proof_of_work_bits.min(MAX_BITS),
        expires_at: ends.iso8601(),
    };
    (NO_STORE, Json(record))
}

/// Returns the claim state of the agent's own account.
#[utoipa::path(get, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 200, description = "The claim state", body = AgentAccountState)))]
async fn claim_link(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<AgentAccountState>> {
    let agent = own(&app, &caller).await?;
    Ok(Json(AgentAccountState {
        id: agent.account.to_string(),
        name: agent.name,
        claimable: agent.claimable,
        expires_at: agent.expires_at.iso8601(),
    }))
}

/// Creates a new claim link of the agent's own account.
///
/// The earlier link is no longer valid.
#[utoipa::path(post, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 201, description = "The claim link", body = NewClaimLink)))]
async fn new_claim_link(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
) -> Result<impl IntoResponse> {
    let agent = own(&app, &caller).await?;
    let code = app.agent_signup.new_claim(agent.account).await?;
    Ok((StatusCode::CREATED, NO_STORE, Json(NewClaimLink { claim_url: link(&origin, &code) })))
}

/// Revokes the claim link of the agent's own account.
#[utoipa::path(delete, path = "/agent-accounts/claim-link", tag = "account",
    responses((status = 200, description = "The link was revoked", body = Acknowledgement)))]
async fn revoke_claim_link(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<Acknowledgement>> {
    let agent = own(&app, &caller).await?;
    app.store.set_claim(agent.account, None).await?;
    Ok(Json(Acknowledgement { success: true }))
}

fn limits(terms: AccountTerms) -> AgentLimits {
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
    Ok(agent.ok_or_else(|| Error::not_found("This account is not an unclaimed agent's account"))?)
}

fn link(origin: &Origin, code: &Secret) -> String {
    format!("{}/claim/{}", origin.0, code.reveal())
}
