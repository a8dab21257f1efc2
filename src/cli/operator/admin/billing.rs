//! `hotdesk admin plan`, `payment` and `billing`: plans and payment states.

use clap::Args;

use crate::client::resolve::{COMPUTER, Candidate, ResourceKind, pick};
use crate::failure::Outcome;
use crate::output;
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerRef;
use hotdesk_base::time::UnixMillis;
use hotdesk_controller::config::Config;
use hotdesk_domain::audit::{AuditAction, Entry};
use hotdesk_domain::billing::plan::DEFAULT;
use hotdesk_domain::billing::{BillingChange, Payment, Variant};
use hotdesk_store::Store;
use hotdesk_store::billing::payments::BillingSubject;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::identity::people::Account;

/// `hotdesk admin plan`.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// Account: e-mail address, id, or the beginning of its id.
    account: String,
    /// Name of a configured plan; `default` is the one from `[limits]`.
    plan: String,
}

/// `hotdesk admin payment`.
#[derive(Debug, Args)]
pub struct PaymentOptions {
    /// Account: e-mail address, id, or the beginning of its id.
    account: String,
    /// Payment state: current or lapsed.
    #[arg(value_parser = parse_payment)]
    payment: Payment,
}

/// `hotdesk admin billing`.
#[derive(Debug, Args)]
pub struct ComputerOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Billing variant: included, trial, hourly, reservation or dedicated.
    #[arg(long, value_parser = parse_variant)]
    variant: Option<Variant>,
    /// Payment state: current or lapsed.
    #[arg(long, value_parser = parse_payment)]
    payment: Option<Payment>,
    /// End of the trial: an ISO 8601 time, or never.
    #[arg(long, value_name = "TIME", value_parser = parse_trial_end)]
    trial_ends: Option<TrialEnd>,
    /// Whether the service manages the computer as a device.
    #[arg(long, value_name = "BOOL")]
    device: Option<bool>,
}

/// End of a trial; `None` is never.
#[derive(Clone, Copy, Debug)]
struct TrialEnd(Option<UnixMillis>);

fn parse_variant(text: &str) -> Result<Variant, String> {
    Variant::from_name(text)
        .ok_or_else(|| format!("use one of {}", Variant::ALL.map(Variant::name).join(", ")))
}

fn parse_payment(text: &str) -> Result<Payment, String> {
    Payment::from_name(text)
        .ok_or_else(|| format!("use one of {}", Payment::ALL.map(Payment::name).join(", ")))
}

fn parse_trial_end(text: &str) -> Result<TrialEnd, String> {
    if text == "never" {
        return Ok(TrialEnd(None));
    }
    let end =
        UnixMillis::parse_iso8601(text).ok_or("use an ISO 8601 time like 2027-01-31T00:00:00Z, or never")?;
    Ok(TrialEnd(Some(end)))
}

/// Sets the plan of an account.
///
/// # Errors
/// When the account or the plan does not exist, or the store fails. Nothing is changed then.
pub async fn plan(store: &Store, config: &Config, options: &PlanOptions) -> Outcome<()> {
    let plan = Some(options.plan.as_str()).filter(|name| *name != DEFAULT).map(str::to_owned);
    let change = BillingChange::Account { plan: Some(plan), payment: None };
    set(store, config, &BillingTarget::Account(&options.account), &change).await?;
    output::line(&format!("Set the plan of {} to {}.", options.account, options.plan))
}

/// Sets the payment state of an account.
///
/// # Errors
/// When the account does not exist, or the store fails. Nothing is changed then.
pub async fn payment(store: &Store, config: &Config, options: &PaymentOptions) -> Outcome<()> {
    let change = BillingChange::Account { plan: None, payment: Some(options.payment) };
    set(store, config, &BillingTarget::Account(&options.account), &change).await?;
    output::line(&format!("Set the payment of {} to {}.", options.account, options.payment.name()))
}

/// Sets the billing of a computer.
///
/// # Errors
/// When the computer does not exist, or the store fails. Nothing is changed then.
pub async fn computer(store: &Store, config: &Config, options: &ComputerOptions) -> Outcome<()> {
    let change = BillingChange::Computer {
        variant: options.variant,
        payment: options.payment,
        trial_ends_at: options.trial_ends.map(|TrialEnd(end)| end),
        device: options.device,
    };
    set(store, config, &BillingTarget::Computer(&options.computer), &change).await?;
    output::line(&format!("Set the billing of {}.", options.computer))
}

const ACCOUNT: ResourceKind = ResourceKind { noun: "account", list: "hotdesk admin list" };

fn candidate_of_account(account: &Account) -> Candidate<'_> {
    Candidate { id: account.id.to_string().into(), instance: None, name: &account.email, workspace: None }
}

fn candidate_of_computer(computer: &Computer) -> Candidate<'_> {
    let workspace = Some(computer.workspace_name.as_str());
    Candidate { id: computer.id.to_string().into(), instance: None, name: &computer.name, workspace }
}

/// Subject of a billing change, as the command line names it.
enum BillingTarget<'a> {
    Account(&'a str),
    Computer(&'a str),
}

impl BillingTarget<'_> {
    /// Returns the subject, and an entry for the audit log of its owner.
    async fn find(&self, store: &Store) -> Outcome<(BillingSubject, Entry)> {
        let line = Entry::of_the_service(clock::now(), AuditAction::BillingChange);
        match self {
            Self::Account(name) => {
                let accounts = store.accounts().await?;
                let account = pick(ACCOUNT, name, &accounts, candidate_of_account)?;
                let target = Some(account.id.to_string());
                Ok((BillingSubject::Account(account.id), Entry { owner: Some(account.id), target, ..line }))
            }
            Self::Computer(name) => {
                let by_id = match name.parse::<ComputerRef>() {
                    Ok(reference) => store.computer(&reference).await?,
                    Err(()) => None,
                };
                let all = if by_id.is_some() { Vec::new() } else { store.all_computers().await? };
                let found = match &by_id {
                    Some(found) => found,
                    None => pick(COMPUTER, name, &all, candidate_of_computer)?,
                };
                let (owner, workspace) = (Some(found.owner), Some(found.workspace));
                let line = Entry { owner, workspace, computer: Some(found.id), ..line };
                Ok((BillingSubject::Computer(found.id), line))
            }
        }
    }
}

async fn set(
    store: &Store,
    config: &Config,
    target: &BillingTarget<'_>,
    change: &BillingChange,
) -> Outcome<()> {
    let (subject, line) = target.find(store).await?;
    store.change_billing(None, subject, change, &config.plans()).await?;
    Ok(store.add_audit(&[line]).await?)
}
