//! `hotdesk hosts`: hosts of computers, for the operator.

use clap::Subcommand;

use crate::account::gone;
use crate::client::Session;
use crate::failure::Outcome;

/// `hotdesk hosts`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Confirm that a host is dead, so that its computers can start from their replicas.
    Gone(gone::Options),
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Gone(options) => gone::run(&options, session).await,
    }
}
