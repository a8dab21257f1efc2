//! Account plan and capacity over HTTP (docs/api/accounts.md).

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::{AccountTerms, CapacityChange};
use hotdesk_domain::computer::allowance::ResourceUse;
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Query};
use hotdesk_wire::billing::capacity::{
    AccountCapacity, ChangeCapacity, ComputeLimits, ComputeLimitsQuery, PlanLimits, Subscription,
};

/// Returns the routes of plans.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(capacity, change_capacity))
        .routes(routes!(subscription))
        .routes(routes!(compute_limits))
}

/// Returns how many computers the account may have, and how many it added to its plan.
#[utoipa::path(get, path = "/account/capacity", tag = "account",
    responses((status = 200, description = "The capacity", body = AccountCapacity)))]
async fn capacity(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<AccountCapacity>> {
    check_account_wide(&caller, "see the account's capacity")?;
    let (terms, used) =
        (app.billing.terms(caller.account).await?, app.store.resource_use(caller.account).await?);
    Ok(Json(capacity_record(&terms, &used, false)))
}

/// Adds computers to the account's plan, or gives some back.
///
/// More than the plan allows: 403 `capacity_cap`. Capacity that computers use cannot be given back: 409
/// `CAPACITY_IN_USE`.
#[utoipa::path(post, path = "/account/capacity", tag = "account", request_body = ChangeCapacity,
    responses((status = 200, description = "The new capacity", body = AccountCapacity)))]
async fn change_capacity(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Body(wanted): Body<ChangeCapacity>,
) -> Result<Json<AccountCapacity>> {
    check_account_wide(&caller, "change the account's capacity")?;
    let change = match (wanted.add, wanted.give_back) {
        (Some(more), None) if more > 0 => CapacityChange::Add(more),
        (None, Some(fewer)) if fewer > 0 => CapacityChange::GiveBack(fewer),
        _ => return Err(Error::invalid("one of add and give_back is needed, at least 1").into()),
    };
    let really = !wanted.dry_run;
    let terms = app.store.change_capacity(caller.account, change, &app.plans, really).await?;
    let used = app.store.resource_use(caller.account).await?;
    Ok(Json(capacity_record(&terms, &used, wanted.dry_run)))
}

fn capacity_record(terms: &AccountTerms, used: &ResourceUse, dry_run: bool) -> AccountCapacity {
    let allowed = &terms.allowance;
    AccountCapacity {
        plan: terms.tier.clone(),
        included_computers: terms.plan.allowance.computers,
        added_computers: terms.added,
        max_added_computers: terms.plan.addable,
        max_computers: allowed.computers,
        computers_used: used.computers,
        account_ram_gb: allowed.account_ram_gb,
        account_ram_used_gb: used.ram_gb,
        account_disk_gb: allowed.account_disk_gb,
        account_disk_used_gb: used.disk_gb,
        dry_run,
    }
}

/// Returns the account's plan.
#[utoipa::path(get, path = "/user/subscription", tag = "account",
    responses((status = 200, description = "The plan", body = Subscription)))]
async fn subscription(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> Result<Json<Subscription>> {
    check_account_wide(&caller, "see the account's plan")?;
    let terms = app.billing.terms(caller.account).await?;
    let (allowed, template_authoring) = (terms.allowance, terms.check_template_authoring().is_ok());
    Ok(Json(Subscription {
        tier: terms.tier,
        plan_limits: Some(PlanLimits {
            max_desktops: allowed.computers,
            max_ram_per_user: allowed.account_ram_gb,
            max_cpu: allowed.cpu,
            max_ram: allowed.ram_gb,
            max_disk_size_gb: allowed.disk_gb,
            max_bandwidth_mbps: allowed.bandwidth_mbps,
            max_snapshots: allowed.snapshots,
        }),
        template_authoring,
        trial_ends_at: terms.trial_ends_at.map(UnixMillis::iso8601),
        payment: terms.payment.name().to_owned(),
    }))
}

/// Returns what may still be created in a workspace.
///
/// The plan of the workspace's owner applies, and the limit of the client whose workspace it is.
#[utoipa::path(get, path = "/billing/compute-limits", tag = "account", params(ComputeLimitsQuery),
    responses((status = 200, description = "The limits", body = ComputeLimits)))]
async fn compute_limits(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<ComputeLimitsQuery>,
) -> Result<Json<ComputeLimits>> {
    let workspace = app.directory.find_workspace(&caller, &query.workspace_id).await?;
    let allowed = app.billing.allowance(workspace.account).await?;
    let used = app.store.resource_use(workspace.account).await?;
    let client = app.store.client_of(workspace.id).await?;
    let bound = client.and_then(|client| client.terms.max_computers.map(|most| (most, client.computers)));
    let (max_computers, computers_used) = match bound {
        Some((most, held)) => (most.min(allowed.computers), held),
        None => (allowed.computers, used.computers),
    };
    Ok(Json(ComputeLimits {
        max_computers,
        computers_used,
        max_ram_gb: allowed.ram_gb,
        account_ram_budget_gb: allowed.account_ram_gb,
        account_ram_used_gb: used.ram_gb,
    }))
}
