//! Plan and added capacity of an account (docs/api/accounts.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET` and `POST /account/capacity`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccountCapacity {
    /// Name of the account's plan.
    pub plan: String,
    /// Number of computers that the plan includes.
    pub included_computers: u32,
    /// Number of computers that the account added.
    pub added_computers: u32,
    /// Largest number of computers that the account can add.
    pub max_added_computers: u32,
    /// Included and added computers together.
    pub max_computers: u32,
    /// Number of computers of the account.
    pub computers_used: u32,
    /// RAM limit for all computers of the account, in GB.
    pub account_ram_gb: u32,
    /// RAM of all computers of the account, in GB.
    pub account_ram_used_gb: u32,
    /// Disk limit for all computers of the account, in GB.
    pub account_disk_gb: u32,
    /// Disk of all computers and snapshots of the account, in GB.
    pub account_disk_used_gb: u32,
    /// True when nothing was stored.
    pub dry_run: bool,
}

/// `POST /account/capacity`. Exactly one of `add` and `give_back` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"add": 1, "dry_run": true}))]
#[serde(deny_unknown_fields)]
pub struct ChangeCapacity {
    /// Number of computers to add.
    #[serde(default)]
    pub add: Option<u32>,
    /// Number of added computers to give back.
    #[serde(default)]
    pub give_back: Option<u32>,
    /// True to return the result without storing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// `GET /user/subscription`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Name of the account's plan.
    pub tier: String,
    /// Limits of the plan and the added capacity together.
    pub plan_limits: Option<PlanLimits>,
    /// Whether the account can author templates. Always false in this version.
    pub template_authoring: bool,
    /// End of the trial, ISO 8601; null when there is no trial.
    pub trial_ends_at: Option<String>,
    /// `current` or `lapsed`.
    pub payment: String,
}

/// Limits of a plan, under the names that clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanLimits {
    /// Number of computers of the account.
    pub max_desktops: u32,
    /// RAM of all computers of the account, in GB.
    pub max_ram_per_user: u32,
    /// Number of vCPUs of one computer.
    pub max_cpu: u32,
    /// RAM of one computer, in GB.
    pub max_ram: u32,
    /// Disk of one computer, in GB.
    pub max_disk_size_gb: u32,
    /// Bandwidth of one computer, in Mbit/s; 0 means no limit.
    pub max_bandwidth_mbps: u32,
    /// Number of snapshots of one computer.
    pub max_snapshots: u32,
}

/// `GET /billing/compute-limits`'s query.
#[derive(Clone, Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ComputeLimitsQuery {
    /// The workspace; its owner's plan applies.
    pub workspace_id: String,
}

/// `GET /billing/compute-limits`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputeLimits {
    /// Largest number of computers of the owner, or of the client to whom the workspace belongs.
    pub max_computers: u32,
    /// Number of computers, counted in the same way.
    pub computers_used: u32,
    /// RAM limit of one computer, in GB.
    pub max_ram_gb: u32,
    /// RAM limit for all computers of the owner, in GB.
    pub account_ram_budget_gb: u32,
    /// RAM of all computers of the owner, in GB.
    pub account_ram_used_gb: u32,
}
