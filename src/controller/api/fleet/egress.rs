//! Egress policies of computers over HTTP (docs/egress.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::Result as DomainResult;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path};
use hotdesk_wire::computer::egress::{EgressPolicyRecord, EgressSetting};

/// Returns the routes of egress policies.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(egress_policy, set_egress_policy))
}

/// Returns which destinations a computer reaches.
#[utoipa::path(get, path = "/computers/{id}/egress-policy", tag = "computers", params(("id" = String, Path)),
    responses((status = 200, description = "The policy, or null", body = EgressSetting)))]
async fn egress_policy(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
) -> Result<Json<EgressSetting>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    Ok(Json(EgressSetting { egress_policy: computer.egress.as_ref().map(record) }))
}

/// Changes which destinations a computer reaches. Null removes the policy.
///
/// On a running computer the change is in effect when the response comes, also for connections that are open.
#[utoipa::path(put, path = "/computers/{id}/egress-policy", tag = "computers", params(("id" = String, Path)),
    request_body = EgressSetting,
    responses((status = 200, description = "The new policy, or null", body = EgressSetting)))]
async fn set_egress_policy(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<EgressSetting>,
) -> Result<Json<EgressSetting>> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let policy = wanted.egress_policy.as_ref().map(parse).transpose()?;
    let egress_policy = policy.as_ref().map(record);
    app.fleet.set_egress(&computer, policy).await?;
    Ok(Json(EgressSetting { egress_policy }))
}

/// Reads a policy of a request.
///
/// # Errors
/// Those of [`EgressPolicy::parse`].
pub(super) fn parse(record: &EgressPolicyRecord) -> DomainResult<EgressPolicy> {
    EgressPolicy::parse(&record.mode, record.rules.iter().map(String::as_str))
}

fn record(policy: &EgressPolicy) -> EgressPolicyRecord {
    let rules = policy.rules().iter().map(ToString::to_string).collect();
    EgressPolicyRecord { mode: policy.mode.name().to_owned(), rules }
}
