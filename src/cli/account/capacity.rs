//! `hotdesk capacity`: how many computers may the account have, and how does it add some?

use clap::Args;
use reqwest::Method;

use super::client::Session;
use super::client::api::QUICK;
use super::failure::Outcome;
use super::output;
use hotdesk_domain::counted::counted;
use hotdesk_wire::account::{AccountCapacity, ChangeCapacity};

/// `hotdesk capacity`.
#[derive(Debug, Args)]
pub struct Options {
    /// Add so many computers to the plan.
    #[arg(long, value_name = "COUNT", conflicts_with = "give_back")]
    add: Option<u32>,
    /// Give so many of those back.
    #[arg(long, value_name = "COUNT")]
    give_back: Option<u32>,
    /// Only say what would become of it.
    #[arg(long)]
    dry_run: bool,
}

/// Shows the capacity, after a change where one is asked for.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(options: &Options, session: &Session) -> Outcome<()> {
    let path = ["account", "capacity"];
    let answer = if options.add.is_none() && options.give_back.is_none() {
        session.api.get(&path, &[], QUICK).await?
    } else {
        let Options { add, give_back, dry_run } = *options;
        let body = ChangeCapacity { add, give_back, dry_run };
        session.api.call(Method::POST, &path, Some(&body), QUICK).await?
    };
    let told: AccountCapacity = answer.decode()?;
    session.show(&answer, || {
        let AccountCapacity { plan, computers_used, max_computers, added_computers, .. } = &told;
        let allowed = counted(*max_computers, "computer");
        let tried = if told.dry_run { " would be" } else { "" };
        output::line(&format!(
            "Plan {plan}: {computers_used} of {allowed}, {added_computers} of them{tried} added; \
             {} of {} GB of RAM, {} of {} GB of disk.",
            told.account_ram_used_gb, told.account_ram_gb, told.account_disk_used_gb, told.account_disk_gb
        ))
    })
}
