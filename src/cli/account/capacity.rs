//! `hotdesk capacity`: computer quota of the account, and its changes.

use clap::Args;
use reqwest::Method;

use crate::client::Session;
use crate::client::api::REQUEST_TIMEOUT;
use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::plural::plural;
use hotdesk_wire::billing::capacity::{AccountCapacity, ChangeCapacity};

/// `hotdesk capacity`.
#[derive(Debug, Args)]
pub struct Options {
    /// Add this many computers to the plan.
    #[arg(long, value_name = "COUNT", conflicts_with = "give_back")]
    add: Option<u32>,
    /// Give back this many added computers.
    #[arg(long, value_name = "COUNT")]
    give_back: Option<u32>,
    /// Show the result without changing anything.
    #[arg(long)]
    dry_run: bool,
}

/// Changes the capacity when an option asks for it, then prints it.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(options: &Options, session: &Session) -> Outcome<()> {
    let path = ["account", "capacity"];
    let response = if options.add.is_none() && options.give_back.is_none() {
        session.api.get(&path, &[], REQUEST_TIMEOUT).await?
    } else {
        let Options { add, give_back, dry_run } = *options;
        let body = ChangeCapacity { add, give_back, dry_run };
        session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?
    };
    let capacity: AccountCapacity = response.decode()?;
    session.show(&response, || {
        let AccountCapacity { plan, computers_used, max_computers, added_computers, .. } = &capacity;
        let allowed = plural(*max_computers, "computer");
        let mode = if capacity.dry_run { " would be" } else { "" };
        output::line(&format!(
            "Plan {plan}: {computers_used} of {allowed}, {added_computers} of them{mode} added; \
             {} of {} GB of RAM, {} of {} GB of disk.",
            capacity.account_ram_used_gb,
            capacity.account_ram_gb,
            capacity.account_disk_used_gb,
            capacity.account_disk_gb
        ))
    })
}
