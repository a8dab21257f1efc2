//! `hotdesk admin plan`, `payment` and `billing`: who has which plan, and what is paid?

use clap::Args;

use super::told;
use crate::failure::Outcome;
use crate::output;
use hotdesk_base::clock::{now_ms, parse_iso8601};
use hotdesk_base::ids::{AccountId, ComputerRef};
use hotdesk_controller::config::Config;
use hotdesk_domain::audit::{Action, Entry};
use hotdesk_domain::billing::{Change, Payment, Variant};
use hotdesk_domain::plan::DEFAULT;
use hotdesk_store::Store;
use hotdesk_store::billing::Subject;

/// `hotdesk admin plan`.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// The account's id or e-mail address.
    account: String,
    /// The plan's name in the configuration; `default` for the one that [limits] makes.
    plan: String,
}

/// `hotdesk admin payment`.
#[derive(Debug, Args)]
pub struct PaymentOptions {
    /// The account's id or e-mail address.
    account: String,
    /// Whether it is paid: current or lapsed.
    #[arg(value_parser = payment_named)]
    payment: Payment,
}

/// `hotdesk admin billing`.
#[derive(Debug, Args)]
pub struct ComputerOptions {
    /// The computer's id or instance id.
    computer: String,
    /// How it is paid for: included, trial, hourly, reservation or dedicated.
    #[arg(long, value_parser = variant_named)]
    variant: Option<Variant>,
    /// Whether it is paid: current or lapsed.
    #[arg(long, value_parser = payment_named)]
    payment: Option<Payment>,
    /// When its trial ends: an ISO 8601 time, or never.
    #[arg(long, value_name = "TIME", value_parser = end_of)]
    trial_ends: Option<End>,
    /// Whether the service itself manages it, as a device.
    #[arg(long, value_name = "BOOL")]
    device: Option<bool>,
}

/// The end of a trial; `None` is never.
#[derive(Clone, Copy, Debug)]
struct End(Option<i64>);

fn variant_named(text: &str) -> Result<Variant, String> {
    Variant::named(text).ok_or_else(|| Variant::ALL.map(Variant::name).join(", "))
}

fn payment_named(text: &str) -> Result<Payment, String> {
    Payment::named(text).ok_or_else(|| Payment::ALL.map(Payment::name).join(", "))
}

fn end_of(text: &str) -> Result<End, String> {
    if text == "never" {
        return Ok(End(None));
    }
    let end = parse_iso8601(text).ok_or("an ISO 8601 time like 2027-01-31T00:00:00Z, or never")?;
    Ok(End(Some(end)))
}

/// Gives an account a plan.
///
/// # Errors
/// When there is no such account or plan.
pub async fn plan(store: &Store, config: &Config, options: &PlanOptions) -> Outcome<()> {
    let plan = Some(options.plan.as_str()).filter(|name| *name != DEFAULT).map(str::to_owned);
    let change = Change::Account { plan: Some(plan), payment: None };
    set(store, config, &Named::Account(&options.account), &change).await?;
    output::line(&format!("{} has the plan {}.", options.account, options.plan))
}

/// Says whether an account is paid.
///
/// # Errors
/// When there is no such account.
pub async fn payment(store: &Store, config: &Config, options: &PaymentOptions) -> Outcome<()> {
    let change = Change::Account { plan: None, payment: Some(options.payment) };
    set(store, config, &Named::Account(&options.account), &change).await?;
    output::line(&format!("The payment of {} is {}.", options.account, options.payment.name()))
}

/// Says how a computer is paid for.
///
/// # Errors
/// When there is no such computer.
pub async fn computer(store: &Store, config: &Config, options: &ComputerOptions) -> Outcome<()> {
    let change = Change::Computer {
        variant: options.variant,
        payment: options.payment,
        trial_ends_at: options.trial_ends.map(|End(end)| end),
        device: options.device,
    };
    set(store, config, &Named::Computer(&options.computer), &change).await?;
    output::line(&format!("Set the billing of {}.", options.computer))
}

/// What a command line names.
enum Named<'a> {
    Account(&'a str),
    Computer(&'a str),
}

impl Named<'_> {
    /// What it is, with a line for the audit log of whoever owns it.
    async fn found(&self, store: &Store) -> Outcome<(Subject, Entry)> {
        let line = Entry::of_the_service(now_ms(), Action::BillingChange);
        match self {
            Self::Account(name) => {
                let account = match name.parse::<AccountId>() {
                    Ok(id) => store.account(id).await,
                    Err(_) => store.account_of(&name.to_lowercase()).await,
                };
                let account = account.map_err(told)?.ok_or_else(|| format!("there is no account {name}"))?;
                let target = Some(account.id.to_string());
                Ok((Subject::Account(account.id), Entry { owner: Some(account.id), target, ..line }))
            }
            Self::Computer(name) => {
                let unknown = || format!("there is no computer {name}");
                let reference: ComputerRef = name.parse().map_err(|()| unknown())?;
                let computer = store.computer(&reference).await.map_err(told)?;
                let found = computer.ok_or_else(unknown)?;
                let (owner, workspace) = (Some(found.owner), Some(found.workspace));
                let line = Entry { owner, workspace, computer: Some(found.id), ..line };
                Ok((Subject::Computer(found.id), line))
            }
        }
    }
}

async fn set(store: &Store, config: &Config, named: &Named<'_>, change: &Change) -> Outcome<()> {
    let (subject, line) = named.found(store).await?;
    store.change_billing(None, subject, change, &config.plans()).await.map_err(told)?;
    store.add_audit(&[line]).await.map_err(told)
}
