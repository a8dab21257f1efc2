//! `hotdesk bash`: what does a command print on a computer, and how does it end?

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Method;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::{output, read_text};
use hotdesk_wire::exec::{Bash, BashResult};

/// Longest time-out that the service takes, in seconds (interface.md "Limits"); waited for when none is given.
const LONGEST: f64 = hotdesk_domain::limits::MAX_COMMAND_SECONDS;

/// `hotdesk bash`.
#[derive(Debug, Args)]
pub struct Options {
    /// Its id, instance id or name.
    computer: String,
    /// Seconds after which the command is killed; the server's default is 200, at most 300.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// The command; several words are joined by spaces, as ssh does. `-` reads it from standard input.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs a command; ends with its exit code.
///
/// # Errors
/// When it could not be run.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let command = read_text(options.command.join(" "))?;
    let id = resolve::computer(&session.api, &options.computer).await?;
    // A nonsensical time-out is the server's to refuse.
    let seconds = options.timeout.filter(|seconds| (0.0..=LONGEST).contains(seconds)).unwrap_or(LONGEST);
    let patience = QUICK + Duration::from_secs_f64(seconds);
    let body = Bash { command, timeout: options.timeout, ..Bash::default() };
    let answer = session.api.call(Method::POST, &["computers", &id, "bash"], Some(&body), patience).await?;
    let result: BashResult = answer.decode()?;
    session.show(&answer, || output::bytes(result.output.as_bytes()))?;
    if result.omitted_bytes > 0 {
        eprintln!("hotdesk: {} bytes in the middle were left out", result.omitted_bytes);
    }
    if result.timeout {
        eprintln!("hotdesk: the command was killed at its time-out");
    }
    // What does not fit an exit code failed all the same.
    Ok(u8::try_from(result.exit_code).map_or(ExitCode::FAILURE, ExitCode::from))
}
