//! Plans: their limits, and the effects of payment and trials (docs/api/limits.md, docs/api/accounts.md,
//! docs/lifecycle.md).

mod billing;
mod capacity;
mod kept;
mod kept_rows;
mod limits;
mod trials;
mod webhook;

use std::time::Duration;

use hotdesk::base::ids::AccountId;
use hotdesk::controller::config::{AutoStopTiming, Config, Limits, PlanSettings};
use hotdesk::domain::billing::BillingChange;
use hotdesk::store::billing::payments::BillingSubject;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// Changes the billing of an account or a computer, like the operator does.
pub async fn change_billing(
    controller: &Simulation,
    config: &Config,
    subject: BillingSubject,
    change: BillingChange,
) {
    let changed = controller.store().await.change_billing(None, subject, &change, &config.plans()).await;
    assert!(changed.expect("a stored change").outdated.is_empty());
}

/// Gives an account a plan.
pub async fn give_plan(controller: &Simulation, config: &Config, account: AccountId, plan: &str) {
    let change = BillingChange::Account { plan: Some(Some(plan.to_owned())), payment: None };
    change_billing(controller, config, BillingSubject::Account(account), change).await;
}

/// Configuration with two small plans and a default plan of three computers.
pub fn config() -> Config {
    let small = PlanSettings {
        max_computers: Some(2),
        max_cpu: Some(2),
        max_ram_gb: Some(8),
        max_account_ram_gb: Some(12),
        max_disk_gb: Some(20),
        max_account_disk_gb: Some(24),
        max_bandwidth_mbps: Some(100),
        max_snapshots: Some(1),
        max_added_computers: Some(2),
        template_authoring: Some(false),
        ..PlanSettings::default()
    };
    let trial = PlanSettings { max_added_computers: None, trial_days: Some(7), ..small.clone() };
    let plans = [("small", small), ("trial", trial)].map(|(name, plan)| (name.to_owned(), plan));
    Config {
        limits: Limits { max_computers: 3, ..Limits::default() },
        plans: plans.into(),
        // No trial ends automatically before the test checks it.
        auto_stop: AutoStopTiming { every: Duration::from_secs(3600), ..AutoStopTiming::default() },
        ..Config::default()
    }
}

/// An account with the plan `small`.
pub struct SmallAccount {
    pub account: AccountId,
    /// An account-wide key.
    pub key: String,
    /// The id of the account's workspace.
    pub workspace: String,
}

/// Creates an account with the plan `small`.
pub async fn small_account(controller: &Simulation) -> SmallAccount {
    let (account, key) = controller.account("small@example.org").await;
    give_plan(controller, &config(), account, "small").await;
    let request = controller.request_with(&key, Method::POST, "/workspaces").json(&json!({"name": "w"}));
    let workspace = id_of(&fetch_json(request).await.body);
    SmallAccount { account, key, workspace }
}
