//! What does a plan give, and what follows from what is not paid? (interface.md "Limits" and "Suspend", wire.md 14)

mod billing;
mod capacity;
mod kept;
mod kept_rows;
mod limits;
mod trials;
mod webhook;

use std::time::Duration;

use hotdesk::base::ids::AccountId;
use hotdesk::controller::config::{Config, Limits, Pace, PlanSettings};
use hotdesk::domain::billing::Change;
use hotdesk::store::billing::Subject;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::answered;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// Says what is now so of an account or a computer, as the operator would.
pub async fn say(house: &Simulation, config: &Config, subject: Subject, change: Change) {
    let said = house.store().await.change_billing(None, subject, &change, &config.plans()).await;
    assert!(said.expect("it is stored").outdated.is_empty());
}

/// Gives an account a plan.
pub async fn give_plan(house: &Simulation, config: &Config, account: AccountId, plan: &str) {
    let change = Change::Account { plan: Some(Some(plan.to_owned())), payment: None };
    say(house, config, Subject::Account(account), change).await;
}

/// Two small plans beside a default one of three computers.
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
        // What a test says of a trial is not acted upon before the test looks.
        auto_stop: Pace { every: Duration::from_secs(3600), ..Pace::default() },
        ..Config::default()
    }
}

/// An account with the plan `small`.
pub struct Small {
    pub account: AccountId,
    /// A key of all of it.
    pub key: String,
    /// A workspace of its own.
    pub workspace: String,
}

/// Makes one.
pub async fn small(house: &Simulation) -> Small {
    let (account, key) = house.account("small@example.org").await;
    give_plan(house, &config(), account, "small").await;
    let request = house.request_with(&key, Method::POST, "/workspaces").json(&json!({"name": "w"}));
    let workspace = id_of(&answered(request).await.body);
    Small { account, key, workspace }
}
