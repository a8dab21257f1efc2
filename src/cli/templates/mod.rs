//! `hotdesk templates`: definition files, published templates and their builds.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

mod build;
mod debug;
mod definition;
mod name;
mod published;
mod run;

pub use definition::check;
pub use name::{named, reference};

use crate::client::Session;
use crate::client::watch::Watch;
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
        /// List the templates of the service, too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        view: ListView,
        #[command(flatten)]
        watch: Watch,
    },
    /// Show a template with its normalised document.
    #[command(visible_alias = "get")]
    Show {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
    },
    /// Show the status of the last build: its duration, or why it failed.
    Status {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
    },
    /// Build a template, and print its log until it is ready. The exit code is 1 when the build failed.
    Build {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
        /// Do not wait for the end.
        #[arg(long, short)]
        detach: bool,
    },
    /// Print the log of the last build until it ends.
    Logs {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
    },
    /// Cancel the build of a template.
    Cancel {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
    },
    /// Open a failed build as a throw-away computer with what its finished steps wrote and the scripts that are left, and print
    /// its id.
    Debug {
        /// Template: [NAMESPACE/]NAME[@VERSION].
        template: String,
    },
    /// Launch a throw-away computer of a template, and print its id. The service deletes it after an hour.
    Run {
        /// Template: [NAMESPACE/]NAME[@VERSION].
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
        Command::List { all, view, watch } => {
            watch.run(async || published::list(session, all, view).await).await?;
        }
        Command::Show { template } => published::show(session, &named(session, &template).await?).await?,
        Command::Status { template } => build::status(session, &named(session, &template).await?).await?,
        Command::Build { template, detach } => {
            return build::begin(session, &named(session, &template).await?, detach).await;
        }
        Command::Logs { template } => build::follow(session, &named(session, &template).await?).await?,
        Command::Cancel { template } => build::cancel(session, &named(session, &template).await?).await?,
        Command::Debug { template } => debug::debug(session, &named(session, &template).await?).await?,
        Command::Run { template } => run::run(session, &named(session, &template).await?).await?,
        Command::Delete { template, confirmation } => {
            published::delete(session, &template, confirmation).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
