//! Plans besides the default one (`[limits]`), billing, and accounts of AI agents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, Limits};
use hotdesk_domain::billing::plan::{AGENT, Plan, Plans};
use hotdesk_domain::billing::quota::Quota;
use hotdesk_domain::computer::allowance::Allowance;

/// Plan `[plans.NAME]`. Unset values are those of `[limits]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanSettings {
    /// Computers that an account may have.
    pub max_computers: Option<u32>,
    /// vCPUs that one computer may have.
    pub max_cpu: Option<u32>,
    /// GB of RAM that one computer may have.
    pub max_ram_gb: Option<u32>,
    /// GB of RAM that a resize may reach.
    pub max_resize_ram_gb: Option<u32>,
    /// GB of RAM that an account's computers may have together.
    pub max_account_ram_gb: Option<u32>,
    /// GB of disk that one computer may have.
    pub max_disk_gb: Option<u32>,
    /// GB of disk that an account's computers may have together.
    pub max_account_disk_gb: Option<u32>,
    /// Mbps in each direction that a computer gets, and the most it may be set to; 0 is unlimited.
    pub max_bandwidth_mbps: Option<u32>,
    /// Snapshots that one computer may have.
    pub max_snapshots: Option<u32>,
    /// Workspaces that an account may own.
    pub max_workspaces: Option<u32>,
    /// Clients that an account may have.
    pub max_clients: Option<u32>,
    /// Members and invitations that one workspace may have.
    pub max_people: Option<u32>,
    /// Accounts that may be created through an account's invitations, and through those of accounts created
    /// so.
    pub max_brought_accounts: Option<u32>,
    /// Stored files that an account's workspaces may hold.
    pub max_files: Option<u32>,
    /// GB that those files may take.
    pub max_files_gb: Option<u32>,
    /// Computers that an account may add to its plan by `POST /account/capacity`. Not set: none.
    pub max_added_computers: Option<u32>,
    /// GB of RAM that each of those adds to the account's. Not set: 4, as much as a computer has by default.
    pub added_ram_gb: Option<u32>,
    /// GB of disk that each of those adds to the account's. Not set: 8, as much as a computer has by default.
    pub added_disk_gb: Option<u32>,
    /// Whether templates may be published, built and deleted. Not set: allowed.
    pub template_authoring: Option<bool>,
    /// Days after which an account must choose another plan. Not set: no trial.
    pub trial_days: Option<u32>,
}

/// Billing by another service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BillingSettings {
    /// File (mode 0600) with the secret that signs `POST /billing/webhook`; empty: no events are accepted.
    pub webhook_secret_file: PathBuf,
}

/// Accounts that AI agents create for themselves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentAccounts {
    /// Whether agents may create accounts.
    pub enabled: bool,
    /// Accounts that one client address may create in an hour.
    pub per_source_per_hour: u32,
    /// Accounts that may be created in an hour in total.
    pub per_hour: u32,
    /// Accounts that may wait to be claimed.
    pub max_unclaimed: u32,
    /// Days after which an unclaimed account is removed, with all its contents.
    pub unclaimed_days: u32,
    /// Leading zero bits that the proof of work requires, at most 32; 0: none. 20 take about a second.
    pub proof_of_work_bits: u32,
}

impl Default for AgentAccounts {
    /// Off by default: a private service must not give computers to anyone who reaches its port. Three an
    /// hour allow retries, and a hundred unclaimed accounts are a host full of computers of the plan `agent`.
    fn default() -> Self {
        Self {
            enabled: false,
            per_source_per_hour: 3,
            per_hour: 30,
            max_unclaimed: 100,
            unclaimed_days: 7,
            proof_of_work_bits: 0,
        }
    }
}

/// One small computer: enough to work with, but not worth abusing. `[plans.agent]` overrides it.
const AGENT_PLAN: Plan = Plan {
    allowance: Allowance {
        computers: 1,
        cpu: 1,
        ram_gb: 4,
        resize_ram_gb: 4,
        account_ram_gb: 4,
        disk_gb: 8,
        account_disk_gb: 8,
        bandwidth_mbps: 50,
        snapshots: 0,
    },
    quota: Quota { workspaces: 10, clients: 0, people: 10, brought_accounts: 0, files: 100, files_gb: 1 },
    addable: 0,
    added_ram_gb: 0,
    added_disk_gb: 0,
    template_authoring: false,
    trial_days: None,
};

/// Default of what an added computer adds: the defaults of `POST /computers`.
const ADDED_RAM_GB: u32 = 4;
const ADDED_DISK_GB: u32 = 8;

impl Config {
    /// Returns all plans.
    pub fn plans(&self) -> Plans {
        let mut named: BTreeMap<String, Plan> = [(AGENT.to_owned(), AGENT_PLAN)].into();
        named.extend(
            self.plans.iter().map(|(name, settings)| (name.clone(), settings.merged_with(&self.limits))),
        );
        Plans::new(PlanSettings::default().merged_with(&self.limits), named)
    }
}

impl PlanSettings {
    fn merged_with(&self, limits: &Limits) -> Plan {
        let (base, quota) = (limits.allowance(), limits.quota());
        Plan {
            allowance: Allowance {
                computers: self.max_computers.unwrap_or(base.computers),
                cpu: self.max_cpu.unwrap_or(base.cpu),
                ram_gb: self.max_ram_gb.unwrap_or(base.ram_gb),
                resize_ram_gb: self.max_resize_ram_gb.unwrap_or(base.resize_ram_gb),
                account_ram_gb: self.max_account_ram_gb.unwrap_or(base.account_ram_gb),
                disk_gb: self.max_disk_gb.unwrap_or(base.disk_gb),
                account_disk_gb: self.max_account_disk_gb.unwrap_or(base.account_disk_gb),
                bandwidth_mbps: self.max_bandwidth_mbps.unwrap_or(base.bandwidth_mbps),
                snapshots: self.max_snapshots.unwrap_or(base.snapshots),
            },
            quota: Quota {
                workspaces: self.max_workspaces.unwrap_or(quota.workspaces),
                clients: self.max_clients.unwrap_or(quota.clients),
                people: self.max_people.unwrap_or(quota.people),
                brought_accounts: self.max_brought_accounts.unwrap_or(quota.brought_accounts),
                files: self.max_files.unwrap_or(quota.files),
                files_gb: self.max_files_gb.unwrap_or(quota.files_gb),
            },
            addable: self.max_added_computers.unwrap_or(0),
            added_ram_gb: self.added_ram_gb.unwrap_or(ADDED_RAM_GB),
            added_disk_gb: self.added_disk_gb.unwrap_or(ADDED_DISK_GB),
            template_authoring: self.template_authoring.unwrap_or(true),
            trial_days: self.trial_days,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Flags;
    use super::*;
    use hotdesk_base::time::UnixMillis;
    use hotdesk_domain::billing::Payment;
    use hotdesk_domain::billing::plan::AccountStanding;

    #[test]
    fn the_example_file_has_the_named_plans() {
        // Read at run time: clones that share a target folder share this program.
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let file = Path::new(&crate_folder).join("../../packaging/plans.toml");
        let plans = Config::load(Some(&file), &Flags::default()).unwrap().plans();
        let terms = |name: &str| {
            let plan = Some(name.to_owned());
            plans
                .terms(&AccountStanding {
                    plan,
                    plan_since: UnixMillis::EPOCH,
                    added_computers: 0,
                    payment: Payment::Current,
                })
                .unwrap()
        };
        let sizes: Vec<u32> =
            ["hacker", "startup", "scale"].map(|name| terms(name).allowance.computers).to_vec();
        assert!(sizes.is_sorted() && sizes[0] > 0, "{sizes:?}");
        assert!(!terms("startup").plan.template_authoring && terms("scale").plan.template_authoring);
        assert!(terms("trial").trial_ends_at.is_some() && terms("scale").trial_ends_at.is_none());
        assert_eq!(terms(AGENT).allowance.computers, 1);
    }
}
