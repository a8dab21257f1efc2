//! `hotdesk computers start`, `stop`, `restart`, `suspend` and `resume`.

use clap::Args;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve, wait};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::computer::Transition;

/// Options of every power command.
#[derive(Debug, Args)]
pub struct PowerOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Return as soon as the change has started.
    #[arg(long)]
    no_wait: bool,
}

/// A power command.
#[derive(Clone, Copy, Debug)]
pub enum PowerCommand {
    /// Boot a stopped computer, or resume a suspended one.
    Start,
    /// Shut down.
    Stop,
    /// Shut down and boot again.
    Restart,
    /// Save the memory and stop.
    Suspend,
    /// Restore the saved memory.
    Resume,
}

impl PowerCommand {
    /// Last path segment of the request (docs/lifecycle.md), progress text, and final status.
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Start => ("start", "starting", "running"),
            Self::Stop => ("stop", "stopping", "stopped"),
            Self::Restart => ("restart", "restarting", "running"),
            Self::Suspend => ("suspend", "suspending", "suspended"),
            Self::Resume => ("resume", "resuming", "running"),
        }
    }
}

/// Sends the command and, unless `--no-wait`, waits for the final status.
///
/// # Errors
/// When the server refuses the request or is unreachable, or the computer does not reach the final status in time.
pub async fn run(session: &Session, command: PowerCommand, options: &PowerOptions) -> Outcome<()> {
    let (segment, message, wanted) = command.parts();
    let id = resolve::computer(&session.api, &options.computer).await?;
    let progress = Progress::operation(segment, format!("{message} {}", options.computer));
    let response =
        session.api.call(Method::POST, &["computers", &id, segment], None::<&()>, REQUEST_TIMEOUT).await?;
    if options.no_wait {
        drop(progress);
        let transition: Transition = response.decode()?;
        return session
            .show(&response, || output::line(&format!("{} is {}.", options.computer, transition.status)));
    }
    let (computer, response) = wait::until_status(&session.api, &id, wanted).await?;
    progress.complete();
    session.show(&response, || output::line(&format!("{} is {}.", computer.name, computer.status)))
}
