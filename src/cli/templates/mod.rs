//! `hotdesk templates`: definition files, published templates and their builds.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

mod build;
mod debug;
mod definition;
mod published;
mod run;

pub use build::reference;
pub use definition::check;

use crate::client::Session;
use crate::failure::Outcome;
use crate::output::{Confirmation, ListView};

/// `hotdesk templates`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a definition file, without a server. Each error is a line FILE:LINE:COLUMN: FIELD: MESSAGE (HINT).
    Validate {
        /// Definition file in YAML or JSON; - reads standard input.
        file: PathBuf,
    },
    /// Publish a definition file under its name and version.
    Publish {
        /// Definition file in YAML or JSON; - reads standard input.
        file: PathBuf,
        /// Build the template, and print its log until it is ready.
        #[arg(long)]
        build: bool,
        /// Replace another document at the reference, if no computer was launched from it.
        #[arg(long)]
        force: bool,
    },
    /// List the templates of the account.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        view: ListView,
    },
    /// Build a template, and print its log until it is ready. The exit code is 1 when the build failed.
    Build {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
        /// Do not wait for the end.
        #[arg(long, short)]
        detach: bool,
    },
    /// Print the log of the last build until it ends.
    Logs {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
    },
    /// Cancel the build of a template.
    Cancel {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
    },
    /// Open a failed build as a throw-away computer with what its finished steps wrote and the scripts that are left, and print
    /// its id.
    Debug {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
    },
    /// Launch a throw-away computer of a template, and print its id. The service deletes it after an hour.
    Run {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
    },
    /// Delete a template. Computers that were launched from it go on.
    #[command(visible_alias = "rm")]
    Delete {
        /// Template: NAME@VERSION or NAMESPACE/NAME@VERSION.
        template: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// Runs a subcommand that needs the server; `validate` is [`check`].
///
/// # Errors
/// When the file cannot be read, the server refuses the request or is unreachable, or the result cannot be printed.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Validate { file } => return check(&file, session.json),
        Command::Publish { file, build, force } => {
            return published::publish(session, &file, build, force).await;
        }
        Command::List { view } => published::list(session, view).await?,
        Command::Build { template, detach } => return build::begin(session, &template, detach).await,
        Command::Logs { template } => build::follow(session, &template).await?,
        Command::Cancel { template } => build::cancel(session, &template).await?,
        Command::Debug { template } => debug::debug(session, &template).await?,
        Command::Run { template } => run::run(session, &template).await?,
        Command::Delete { template, confirmation } => {
            published::delete(session, &template, confirmation).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
