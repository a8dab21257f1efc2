//! What does an account learn of its plan, and how does it add to it? (wire.md 14)

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET` and `POST /account/capacity`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccountCapacity {
    /// The name of the account's plan.
    pub plan: String,
    /// Computers that the plan gives.
    pub included_computers: u32,
    /// Computers that the account added.
    pub added_computers: u32,
    /// Computers that it may add in all.
    pub max_added_computers: u32,
    /// Both together.
    pub max_computers: u32,
    /// Computers that it has.
    pub computers_used: u32,
    /// GB of RAM of all its computers together.
    pub account_ram_gb: u32,
    /// GB of RAM that they have.
    pub account_ram_used_gb: u32,
    /// GB of disk of all its computers together.
    pub account_disk_gb: u32,
    /// GB of disk that they and their snapshots have.
    pub account_disk_used_gb: u32,
    /// Whether this was only tried: nothing was stored.
    pub dry_run: bool,
}

/// `POST /account/capacity`: one of the two.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"add": 1, "dry_run": true}))]
pub struct ChangeCapacity {
    /// Computers to add.
    #[serde(default)]
    pub add: Option<u32>,
    /// Computers to give back.
    #[serde(default)]
    pub give_back: Option<u32>,
    /// Only says what would become of it.
    #[serde(default)]
    pub dry_run: bool,
}

/// `GET /user/subscription`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// The name of the account's plan.
    pub tier: String,
    /// What it gives, with what was added.
    pub plan_limits: Option<PlanLimits>,
    /// Whether templates can be authored: the plan lets the account, and there are routes for it, which there are not yet.
    pub template_authoring: bool,
    /// ISO 8601: when the trial ends; null where there is none.
    pub trial_ends_at: Option<String>,
    /// `current` or `lapsed`.
    pub payment: String,
}

/// The limits of a plan, under the names that clients read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanLimits {
    /// Computers of the account.
    pub max_desktops: u32,
    /// GB of RAM of all of them together.
    pub max_ram_per_user: u32,
    /// vCPUs of one computer.
    pub max_cpu: u32,
    /// GB of RAM of one computer.
    pub max_ram: u32,
    /// GB of disk of one computer.
    pub max_disk_size_gb: u32,
    /// Mbps of one computer; 0 is without a bound.
    pub max_bandwidth_mbps: u32,
    /// Snapshots of one computer.
    pub max_snapshots: u32,
}

/// `GET /billing/compute-limits`'s query.
#[derive(Clone, Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ComputeLimitsQuery {
    /// The workspace whose owner's plan counts.
    pub workspace_id: String,
}

/// `GET /billing/compute-limits`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputeLimits {
    /// Computers that may be there: the owner's, or those of the client whose workspace it is.
    pub max_computers: u32,
    /// Computers that are there, counted in the same way.
    pub computers_used: u32,
    /// GB of RAM of one computer.
    pub max_ram_gb: u32,
    /// GB of RAM of all the owner's computers together.
    pub account_ram_budget_gb: u32,
    /// GB of RAM that they have.
    pub account_ram_used_gb: u32,
}
