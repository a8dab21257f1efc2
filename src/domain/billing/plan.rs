//! Plans, and the limits that plan and added capacity give an account (docs/api/limits.md).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hotdesk_base::time::UnixMillis;

use crate::billing::quota::Quota;
use crate::billing::{Payment, Variant, trial_ended};
use crate::computer::Hardware;
use crate::computer::allowance::{Allowance, ResourceUse};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::plural::plural;

/// Name of the default plan in answers; it has no name in the configuration.
pub const DEFAULT: &str = "default";
/// Name of the plan of accounts that AI agents create for themselves.
pub const AGENT: &str = "agent";
/// Unit of `trial_days`.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Limits for computers.
    pub allowance: Allowance,
    /// Limits for stored objects.
    pub quota: Quota,
    /// Number of computers that an account can add.
    pub addable: u32,
    /// GB of RAM that each added computer adds to the account's limit.
    pub added_ram_gb: u32,
    /// GB of disk that each added computer adds to the account's limit.
    pub added_disk_gb: u32,
    /// Whether the plan permits its accounts to author templates; see [`AccountTerms::check_template_authoring`].
    pub template_authoring: bool,
    /// Length of the trial in days, from the time when an account gets the plan; `None` means no trial.
    pub trial_days: Option<u32>,
}

/// All plans of this installation.
#[derive(Clone, Debug)]
pub struct Plans {
    default: Plan,
    named: Arc<BTreeMap<String, Plan>>,
}

/// Plan, capacity and payment of an account as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStanding {
    /// Name of its plan; `None` means the default plan.
    pub plan: Option<String>,
    /// Time since which it has this plan.
    pub plan_since: UnixMillis,
    /// Number of added computers.
    pub added_computers: u32,
    /// State of the payment.
    pub payment: Payment,
}

/// Plan and effective limits of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountTerms {
    /// Name of the plan.
    pub tier: String,
    /// The plan.
    pub plan: Plan,
    /// Limits for computers from the plan and the added computers together.
    pub allowance: Allowance,
    /// Number of added computers.
    pub added: u32,
    /// End of its trial; `None` means no trial.
    pub trial_ends_at: Option<UnixMillis>,
    /// State of the payment.
    pub payment: Payment,
}

/// Change of an account's added capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityChange {
    /// Add this number of computers.
    Add(u32),
    /// Give back this number of computers.
    GiveBack(u32),
}

impl Plans {
    /// Creates the set of plans from the default plan and the named ones.
    pub fn new(default: Plan, named: BTreeMap<String, Plan>) -> Self {
        Self { default, named: Arc::new(named) }
    }

    /// Checks that a plan with this name exists.
    ///
    /// # Errors
    /// `Invalid` when it does not; the message lists the names.
    pub fn check(&self, name: &str) -> Result<()> {
        if self.named.contains_key(name) {
            return Ok(());
        }
        let names: Vec<&str> = self.named.keys().map(String::as_str).collect();
        Err(Error::invalid(format!("there is no plan {name:?}; the plans are: {}", names.join(", "))))
    }

    /// Returns the plan and the effective limits of an account.
    ///
    /// # Errors
    /// `Forbidden` (`CHANGE_PLAN`) when the plan is no longer in the configuration.
    pub fn terms(&self, standing: &AccountStanding) -> Result<AccountTerms> {
        let (tier, plan) = match &standing.plan {
            None => (DEFAULT, &self.default),
            Some(name) => match self.named.get(name) {
                Some(plan) => (name.as_str(), plan),
                None => {
                    return Err(Error::forbidden(format!(
                        "This account's plan {name:?} does not exist any more: choose another plan"
                    ))
                    .code(ErrorCode::ChangePlan));
                }
            },
        };
        let trial = plan.trial_days.map(|days| standing.plan_since.plus(DAY * days));
        // Capacity that was added under another plan counts only up to this plan's limit.
        let added = standing.added_computers.min(plan.addable);
        Ok(AccountTerms {
            tier: tier.to_owned(),
            plan: plan.clone(),
            allowance: plan.with(added),
            added,
            trial_ends_at: trial,
            payment: standing.payment,
        })
    }
}

impl Plan {
    /// Returns the limits with this number of added computers.
    fn with(&self, added: u32) -> Allowance {
        let more = |base: u32, each: u32| base.saturating_add(each.saturating_mul(added));
        let plan = self.allowance;
        Allowance {
            computers: more(plan.computers, 1),
            account_ram_gb: more(plan.account_ram_gb, self.added_ram_gb),
            account_disk_gb: more(plan.account_disk_gb, self.added_disk_gb),
            ..plan
        }
    }
}

impl AccountTerms {
    /// Checks that the account may author templates: validate, publish and build them (docs/api/templates.md).
    ///
    /// # Errors
    /// `Forbidden` (`UPGRADE_REQUIRED`) when its plan does not permit it.
    pub fn check_template_authoring(&self) -> Result<()> {
        if self.plan.template_authoring {
            return Ok(());
        }
        Err(Error::forbidden("This account's plan does not include template authoring")
            .code(ErrorCode::UpgradeRequired))
    }

    /// Returns how a new computer of the account is paid for.
    pub fn variant(&self) -> Variant {
        if self.trial_ends_at.is_some() { Variant::Trial } else { Variant::Included }
    }

    /// Checks at `now` that the account is paid for.
    ///
    /// # Errors
    /// `PaymentRequired` after the end of its trial, or when its payment has lapsed.
    pub fn check_paid(&self, now: UnixMillis) -> Result<()> {
        if self.trial_ends_at.is_some_and(|end| end <= now) {
            return Err(trial_ended());
        }
        match self.payment {
            Payment::Current => Ok(()),
            Payment::Lapsed => Err(Error::payment_required(
                "This account's payment has lapsed: ask the operator of this service",
            )),
        }
    }

    /// Checks at `now` whether the account, which uses `used`, can create one more computer.
    ///
    /// # Errors
    /// Those of [`AccountTerms::check_paid`] and [`Allowance::admit`]. `DESKTOP_LIMIT` becomes
    /// `UPGRADE_REQUIRED` for a plan without computers and `VM_SLOT_ADDON` where the account can add one.
    pub fn admit(&self, wanted: &Hardware, used: &ResourceUse, now: UnixMillis) -> Result<()> {
        self.check_paid(now)?;
        self.allowance.admit(wanted, used).map_err(|refused| match refused.code {
            Some(ErrorCode::DesktopLimit) if self.allowance.computers == 0 => {
                refused.code(ErrorCode::UpgradeRequired)
            }
            Some(ErrorCode::DesktopLimit) if self.added < self.plan.addable => {
                refused.code(ErrorCode::VmSlotAddon)
            }
            _ => refused,
        })
    }

    /// Returns the number of added computers after a change, when the account uses `used`.
    ///
    /// # Errors
    /// `Forbidden` (`capacity_cap`) above the plan's limit; `Invalid` when it gives back more than it added;
    /// `Conflict` (`CAPACITY_IN_USE`) when its computers need the capacity.
    pub fn apply_change(&self, change: CapacityChange, used: &ResourceUse) -> Result<u32> {
        match change {
            CapacityChange::Add(more) => {
                let (added, most) = (self.added.saturating_add(more), self.plan.addable);
                if added <= most {
                    return Ok(added);
                }
                let takes = plural(most, "added computer");
                Err(Error::forbidden(format!("This plan takes {takes}, not {added}"))
                    .code(ErrorCode::CapacityCap)
                    .number("max_added_computers", i64::from(most)))
            }
            CapacityChange::GiveBack(fewer) => {
                let added = self.added.checked_sub(fewer).ok_or_else(|| {
                    let added = plural(self.added, "computer");
                    Error::invalid(format!("This account added only {added}"))
                })?;
                let left = self.plan.with(added);
                match left.exceeded(used) {
                    None => Ok(added),
                    Some(what) => {
                        Err(Error::conflict(format!("The account's computers need this capacity: {what}"))
                            .code(ErrorCode::CapacityInUse))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desktop::resolution::Resolution;
    use crate::error::Kind;

    fn plan() -> Plan {
        let allowance = Allowance {
            computers: 2,
            cpu: 4,
            ram_gb: 8,
            resize_ram_gb: 8,
            account_ram_gb: 8,
            disk_gb: 50,
            account_disk_gb: 50,
            bandwidth_mbps: 100,
            snapshots: 3,
        };
        Plan {
            allowance,
            quota: Quota { workspaces: 2, clients: 2, people: 2, brought_accounts: 2, files: 2, files_gb: 1 },
            addable: 3,
            added_ram_gb: 4,
            added_disk_gb: 10,
            template_authoring: false,
            trial_days: None,
        }
    }

    fn plans() -> Plans {
        let trial = Plan { trial_days: Some(7), ..plan() };
        let none = Plan { allowance: Allowance { computers: 0, ..plan().allowance }, addable: 0, ..plan() };
        let named = [("trial", trial), ("none", none)];
        Plans::new(plan(), named.map(|(name, plan)| (name.to_owned(), plan)).into())
    }

    fn standing(plan: Option<&str>, added_computers: u32) -> AccountStanding {
        let plan = plan.map(str::to_owned);
        AccountStanding {
            plan,
            plan_since: UnixMillis::new(1_000),
            added_computers,
            payment: Payment::Current,
        }
    }

    #[test]
    fn added_computers_bring_their_ram_and_disk() {
        let terms = plans().terms(&standing(None, 2)).unwrap();
        let got = terms.allowance;
        assert_eq!((got.computers, got.account_ram_gb, got.account_disk_gb), (4, 16, 70));
        assert_eq!(
            (got.cpu, got.ram_gb, got.disk_gb, got.snapshots),
            (4, 8, 50, 3),
            "those are of each computer"
        );
        assert_eq!((terms.tier.as_str(), terms.variant(), terms.added), (DEFAULT, Variant::Included, 2));
        let gone = plans().terms(&standing(Some("gone"), 0)).unwrap_err();
        assert_eq!((gone.kind, gone.code), (Kind::Forbidden, Some(ErrorCode::ChangePlan)));
        assert!(plans().check("trial").is_ok() && plans().check("gone").is_err());
    }

    #[test]
    fn templates_are_authored_where_the_plan_lets_it() {
        let lets = |template_authoring| Plans::new(Plan { template_authoring, ..plan() }, BTreeMap::new());
        for permitted in [false, true] {
            let checked = lets(permitted).terms(&standing(None, 0)).unwrap().check_template_authoring();
            assert_eq!(
                checked.map_err(|error| error.code).err(),
                (!permitted).then_some(Some(ErrorCode::UpgradeRequired))
            );
        }
    }

    #[test]
    fn a_refused_computer_says_what_would_help() {
        let small = Hardware {
            cpu: 1.0,
            ram_gb: 4,
            disk_gb: 8,
            resolution: Resolution::default(),
            bandwidth_mbps: 0,
        };
        let full = |computers| ResourceUse { computers, ram_gb: 0, disk_gb: 0 };
        let code = |standing: &AccountStanding, used: &ResourceUse, now| {
            plans()
                .terms(standing)
                .unwrap()
                .admit(&small, used, now)
                .err()
                .map(|error| (error.kind, error.code))
        };
        let refused = |code| Some((Kind::Forbidden, Some(code)));
        let unpaid = Some((Kind::PaymentRequired, None));
        let week = UnixMillis::new(1_000).plus(7 * DAY);
        let early = UnixMillis::EPOCH;
        for (standing, used, now, expected) in [
            (standing(None, 0), full(1), early, None),
            (standing(None, 0), full(2), early, refused(ErrorCode::VmSlotAddon)),
            (standing(None, 3), full(5), early, refused(ErrorCode::DesktopLimit)),
            (standing(Some("none"), 0), full(0), early, refused(ErrorCode::UpgradeRequired)),
            (
                standing(None, 0),
                ResourceUse { computers: 0, ram_gb: 5, disk_gb: 0 },
                early,
                refused(ErrorCode::RamAddon),
            ),
            (standing(Some("trial"), 0), full(0), week.minus(Duration::from_millis(1)), None),
            (standing(Some("trial"), 0), full(0), week, unpaid),
            (AccountStanding { payment: Payment::Lapsed, ..standing(None, 0) }, full(0), early, unpaid),
        ] {
            assert_eq!(code(&standing, &used, now), expected, "{standing:?} {used:?} at {now:?}");
        }
    }

    #[test]
    fn capacity_goes_up_to_the_cap_and_down_to_what_is_used() {
        let used = |computers, ram_gb, disk_gb| ResourceUse { computers, ram_gb, disk_gb };
        let (add, back) = (CapacityChange::Add, CapacityChange::GiveBack);
        for (added, change, used, expected) in [
            (0, add(3), used(0, 0, 0), Ok(3)),
            (1, add(3), used(0, 0, 0), Err(Some(ErrorCode::CapacityCap))),
            (0, add(u32::MAX), used(0, 0, 0), Err(Some(ErrorCode::CapacityCap))),
            (3, back(3), used(2, 8, 50), Ok(0)),
            (3, back(4), used(0, 0, 0), Err(None)),
            (1, back(1), used(3, 8, 50), Err(Some(ErrorCode::CapacityInUse))),
            (1, back(1), used(2, 9, 50), Err(Some(ErrorCode::CapacityInUse))),
            (1, back(1), used(2, 8, 51), Err(Some(ErrorCode::CapacityInUse))),
        ] {
            let terms = plans().terms(&standing(None, added)).unwrap();
            let got = terms.apply_change(change, &used).map_err(|error| error.code);
            assert_eq!(got, expected, "{added} {change:?} {used:?}");
        }
    }
}
