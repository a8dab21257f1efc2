//! Which plan does an account have, and what do plan and added capacity give it together? (interface.md "Limits")

use std::collections::BTreeMap;
use std::sync::Arc;

use super::allowance::{Allowance, Used};
use super::billing::{Payment, Variant, trial_ended};
use super::computer::Hardware;
use super::counted::counted;
use super::error::{Error, Result};
use super::quota::Quota;
use super::template;

/// What the default plan is called where its name is told: it has none in the configuration.
pub const DEFAULT: &str = "default";
/// The plan of accounts that AI agents make for themselves.
pub const AGENT: &str = "agent";
/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it gives.
    pub allowance: Allowance,
    /// What an account may keep beside its computers.
    pub quota: Quota,
    /// Computers that an account may add to it.
    pub addable: u32,
    /// GB of RAM that each of them adds to the account's.
    pub added_ram_gb: u32,
    /// GB of disk that each of them adds to the account's.
    pub added_disk_gb: u32,
    /// Whether the plan lets its accounts author templates; [`Terms::may_author_templates`] says whether they can.
    pub template_authoring: bool,
    /// Days of trial from when an account got the plan; `None`: it is no trial.
    pub trial_days: Option<u32>,
}

/// Every plan of this installation.
#[derive(Clone, Debug)]
pub struct Plans {
    default: Plan,
    named: Arc<BTreeMap<String, Plan>>,
}

/// How an account stands, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The name of its plan; `None` is the default one.
    pub plan: Option<String>,
    /// Since when it has that, in milliseconds since 1970.
    pub plan_since: i64,
    /// Computers that it added.
    pub added_computers: u32,
    /// Whether it is paid.
    pub payment: Payment,
}

/// What an account may do: its plan, and what it added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The plan's name.
    pub tier: String,
    /// The plan itself.
    pub plan: Plan,
    /// What plan and added computers give together.
    pub allowance: Allowance,
    /// Computers that it added.
    pub added: u32,
    /// When its trial ends, in milliseconds since 1970; `None`: it has none.
    pub trial_ends_at: Option<i64>,
    /// Whether it is paid.
    pub payment: Payment,
}

/// A change of what an account added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many computers more.
    Add(u32),
    /// So many fewer.
    GiveBack(u32),
}

impl Plans {
    /// A default plan and those with a name.
    pub fn new(default: Plan, named: BTreeMap<String, Plan>) -> Self {
        Self { default, named: Arc::new(named) }
    }

    /// Whether there is a plan of this name.
    ///
    /// # Errors
    /// `Invalid`, with the names there are.
    pub fn check(&self, name: &str) -> Result<()> {
        if self.named.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
        Err(Error::invalid(format!("there is no plan {name:?}, but {}", known.join(", "))))
    }

    /// What an account may do: the one place where plan and capacity become an allowance.
    ///
    /// # Errors
    /// `Forbidden` (`CHANGE_PLAN`) for an account whose plan is not in the configuration any more: nobody knows what it
    /// may have.
    pub fn terms(&self, standing: &Standing) -> Result<Terms> {
        let (tier, plan) = match &standing.plan {
            None => (DEFAULT, &self.default),
            Some(name) => match self.named.get(name) {
                Some(plan) => (name.as_str(), plan),
                None => {
                    return Err(Error::forbidden(format!(
                        "This account's plan {name:?} does not exist any more: choose another plan"
                    ))
                    .code("CHANGE_PLAN"));
                }
            },
        };
        let trial = plan.trial_days.map(|days| standing.plan_since.saturating_add(i64::from(days) * DAY_MS));
        // What another plan let it add goes with that plan.
        let added = standing.added_computers.min(plan.addable);
        Ok(Terms {
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
    /// The allowance with so many computers added.
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

impl Terms {
    /// Whether the account can author templates: its plan lets it, and it is possible here (interface.md "Templates").
    pub fn may_author_templates(&self) -> bool {
        template::AUTHORABLE && self.plan.template_authoring
    }

    /// How a new computer of the account is paid for.
    pub fn variant(&self) -> Variant {
        if self.trial_ends_at.is_some() { Variant::Trial } else { Variant::Included }
    }

    /// Is the account paid for?
    ///
    /// # Errors
    /// `PaymentRequired` after the end of its trial, or when its payment has lapsed.
    pub fn check_paid(&self, now: i64) -> Result<()> {
        if self.trial_ends_at.is_some_and(|end| end <= now) {
            return Err(trial_ended());
        }
        match self.payment {
            Payment::Current => Ok(()),
            Payment::Lapsed => Err(Error::payment_required(
                "This account's payment has lapsed: the operator of this service says when it is paid",
            )),
        }
    }

    /// May the account, which holds `used`, have one more computer of this size?
    ///
    /// # Errors
    /// [`Terms::check_paid`]'s; [`Allowance::admit`]'s, where `DESKTOP_LIMIT` is `UPGRADE_REQUIRED` for a plan without
    /// computers and `VM_SLOT_ADDON` where the account could add one (wire.md 2).
    pub fn admit(&self, wanted: &Hardware, used: &Used, now: i64) -> Result<()> {
        self.check_paid(now)?;
        self.allowance.admit(wanted, used).map_err(|refused| match refused.code {
            Some("DESKTOP_LIMIT") if self.allowance.computers == 0 => refused.code("UPGRADE_REQUIRED"),
            Some("DESKTOP_LIMIT") if self.added < self.plan.addable => refused.code("VM_SLOT_ADDON"),
            _ => refused,
        })
    }

    /// How many computers the account has added after a change, when it holds `used`.
    ///
    /// # Errors
    /// `Forbidden` (`capacity_cap`) above what the plan lets it add; `Invalid` when it gives back more than it added;
    /// `Conflict` (`CAPACITY_IN_USE`) when it gives back what its computers need.
    pub fn changed(&self, change: Capacity, used: &Used) -> Result<u32> {
        match change {
            Capacity::Add(more) => {
                let (added, most) = (self.added.saturating_add(more), self.plan.addable);
                if added <= most {
                    return Ok(added);
                }
                let takes = counted(most, "added computer");
                Err(Error::forbidden(format!("This plan takes {takes}, not {added}"))
                    .code("capacity_cap")
                    .number("max_added_computers", i64::from(most)))
            }
            Capacity::GiveBack(fewer) => {
                let added = self.added.checked_sub(fewer).ok_or_else(|| {
                    let added = counted(self.added, "computer");
                    Error::invalid(format!("This account added {added} and no more"))
                })?;
                let left = self.plan.with(added);
                match left.exceeded(used) {
                    None => Ok(added),
                    Some(what) => {
                        Err(Error::conflict(format!("The account's computers need what would go: {what}"))
                            .code("CAPACITY_IN_USE"))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Kind;
    use super::super::resolution::Resolution;
    use super::*;

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

    fn standing(plan: Option<&str>, added_computers: u32) -> Standing {
        let plan = plan.map(str::to_owned);
        Standing { plan, plan_since: 1_000, added_computers, payment: Payment::Current }
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
        assert_eq!((gone.kind, gone.code), (Kind::Forbidden, Some("CHANGE_PLAN")));
        assert!(plans().check("trial").is_ok() && plans().check("gone").is_err());
    }

    #[test]
    fn templates_are_authored_where_that_is_possible_and_the_plan_lets_it() {
        let lets = |template_authoring| Plans::new(Plan { template_authoring, ..plan() }, BTreeMap::new());
        for (plans, expected) in [(lets(false), false), (lets(true), template::AUTHORABLE)] {
            assert_eq!(plans.terms(&standing(None, 0)).unwrap().may_author_templates(), expected);
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
        let full = |computers| Used { computers, ram_gb: 0, disk_gb: 0 };
        let code = |standing: &Standing, used: &Used, now| {
            plans()
                .terms(standing)
                .unwrap()
                .admit(&small, used, now)
                .err()
                .map(|error| (error.kind, error.code))
        };
        let refused = |code| Some((Kind::Forbidden, Some(code)));
        let unpaid = Some((Kind::PaymentRequired, None));
        let week = 1_000 + 7 * DAY_MS;
        for (standing, used, now, expected) in [
            (standing(None, 0), full(1), 0, None),
            (standing(None, 0), full(2), 0, refused("VM_SLOT_ADDON")),
            (standing(None, 3), full(5), 0, refused("DESKTOP_LIMIT")),
            (standing(Some("none"), 0), full(0), 0, refused("UPGRADE_REQUIRED")),
            (standing(None, 0), Used { computers: 0, ram_gb: 5, disk_gb: 0 }, 0, refused("RAM_ADDON")),
            (standing(Some("trial"), 0), full(0), week - 1, None),
            (standing(Some("trial"), 0), full(0), week, unpaid),
            (Standing { payment: Payment::Lapsed, ..standing(None, 0) }, full(0), 0, unpaid),
        ] {
            assert_eq!(code(&standing, &used, now), expected, "{standing:?} {used:?} at {now}");
        }
    }

    #[test]
    fn capacity_goes_up_to_the_cap_and_down_to_what_is_used() {
        let used = |computers, ram_gb, disk_gb| Used { computers, ram_gb, disk_gb };
        let (add, back) = (Capacity::Add, Capacity::GiveBack);
        for (added, change, used, expected) in [
            (0, add(3), used(0, 0, 0), Ok(3)),
            (1, add(3), used(0, 0, 0), Err(Some("capacity_cap"))),
            (0, add(u32::MAX), used(0, 0, 0), Err(Some("capacity_cap"))),
            (3, back(3), used(2, 8, 50), Ok(0)),
            (3, back(4), used(0, 0, 0), Err(None)),
            (1, back(1), used(3, 8, 50), Err(Some("CAPACITY_IN_USE"))),
            (1, back(1), used(2, 9, 50), Err(Some("CAPACITY_IN_USE"))),
            (1, back(1), used(2, 8, 51), Err(Some("CAPACITY_IN_USE"))),
        ] {
            let terms = plans().terms(&standing(None, added)).unwrap();
            let got = terms.changed(change, &used).map_err(|error| error.code);
            assert_eq!(got, expected, "{added} {change:?} {used:?}");
        }
    }
}
