//! `hotdesk hosts gone`: confirmation that a host is dead.

use clap::Args;
use reqwest::Method;

use crate::client::Session;
use crate::client::api::REQUEST_TIMEOUT;
use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::plural::plural;
use hotdesk_wire::billing::gone::{ConfirmGone, GoneHostRecord};

/// `hotdesk hosts gone`.
#[derive(Debug, Args)]
pub struct Options {
    /// Name of the host.
    name: String,
    /// Confirm that nothing runs on the host any more. Its computers may begin elsewhere afterwards.
    #[arg(long, required = true)]
    yes: bool,
}

/// Confirms that a host is gone, and prints what its computers do.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(options: &Options, session: &Session) -> Outcome<()> {
    let Options { name, yes: _ } = options;
    let body = ConfirmGone { confirm: name.clone() };
    let path = ["operator", "hosts", name.as_str(), "gone"];
    let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
    let gone: GoneHostRecord = response.decode()?;
    session.show(&response, || {
        output::line(&format!(
            "{} is gone: {} stopped, {} of them with a replica. The next start of each continues from it; the others \
             wait for the host.",
            gone.name,
            plural(gone.computers, "computer"),
            gone.with_replica
        ))
    })
}
