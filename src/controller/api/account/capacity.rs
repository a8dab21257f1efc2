//! An account's plan, and what it adds to it, over HTTP (wire.md 14).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_base::clock::iso8601;
use hotdesk_domain::access::check_account_wide;
use hotdesk_domain::allowance::Used;
use hotdesk_domain::error::Error;
use hotdesk_domain::plan::{Capacity, Terms};
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Query};
use hotdesk_wire::account::{
    AccountCapacity, ChangeCapacity, ComputeLimits, ComputeLimitsQuery, PlanLimits, Subscription,
};

/// The routes of plans.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(capacity, change_capacity))
        .routes(routes!(subscription))
        .routes(routes!(compute_limits))
}

/// How many computers the account may have, and how many it added to its plan.
#[utoipa::path(get, path = "/account/capacity", tag = "account",
    responses((status = 200, description = "The capacity", body = AccountCapacity)))]
async fn capacity(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
) -> Result<Json<AccountCapacity>> {
    check_account_wide(&caller, "see the account's capacity")?;
    let (terms, used) = (app.terms(caller.account).await?, app.store.used(caller.account).await?);
    Ok(Json(told(&terms, &used, false)))
}

/// Adds computers to the account's plan, or gives some back. Above what the plan lets it add: 403 `capacity_cap`; what its
/// computers need is not given back: 409 `CAPACITY_IN_USE`.
#[utoipa::path(post, path = "/account/capacity", tag = "account", request_body = ChangeCapacity,
    responses((status = 200, description = "The capacity since then", body = AccountCapacity)))]
async fn change_capacity(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Body(wanted): Body<ChangeCapacity>,
) -> Result<Json<AccountCapacity>> {
    check_account_wide(&caller, "change the account's capacity")?;
    let change = match (wanted.add, wanted.give_back) {
        (Some(more), None) if more > 0 => Capacity::Add(more),
        (None, Some(fewer)) if fewer > 0 => Capacity::GiveBack(fewer),
        _ => return Err(Error::invalid("one of add and give_back is needed, at least 1").into()),
    };
    let really = !wanted.dry_run;
    let terms = app.store.change_capacity(caller.account, change, &app.plans, really).await?;
    let used = app.store.used(caller.account).await?;
    Ok(Json(told(&terms, &used, wanted.dry_run)))
}

fn told(terms: &Terms, used: &Used, dry_run: bool) -> AccountCapacity {
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

/// The account's plan.
#[utoipa::path(get, path = "/user/subscription", tag = "account",
    responses((status = 200, description = "The plan", body = Subscription)))]
async fn subscription(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
) -> Result<Json<Subscription>> {
    check_account_wide(&caller, "see the account's plan")?;
    let terms = app.terms(caller.account).await?;
    let (allowed, template_authoring) = (terms.allowance, terms.may_author_templates());
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
        trial_ends_at: terms.trial_ends_at.map(iso8601),
        payment: terms.payment.name().to_owned(),
    }))
}

/// What may still be made in a workspace: its owner's plan counts, and the bound of the client whose workspace it is.
#[utoipa::path(get, path = "/billing/compute-limits", tag = "account", params(ComputeLimitsQuery),
    responses((status = 200, description = "The limits", body = ComputeLimits)))]
async fn compute_limits(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Query(query): Query<ComputeLimitsQuery>,
) -> Result<Json<ComputeLimits>> {
    let workspace = app.find_workspace(&caller, &query.workspace_id).await?;
    let allowed = app.allowance(workspace.account).await?;
    let used = app.store.used(workspace.account).await?;
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
